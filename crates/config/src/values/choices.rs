//! Settings with a fixed set of values.

use super::Setting;
use serde_json::{Value as Json, json};

macro_rules! choice {
    ($(#[doc = $about:literal])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal $(| $also:literal)*,)+ }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Its name in the configuration.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl Setting for $name {
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word $(| $also)* => Ok(Self::$variant),)+
                    _ => Err(format!("must be one of {}", [$($word),+].join(", "))),
                }
            }

            fn schema() -> Json {
                json!({"enum": [$($word $(, $also)*),+]})
            }
        }
    };
}

choice! {
    /// The engine that runs scripts.
    Engine {
        /// QuickJS; a run that uses much processor time moves to V8 if deno is installed.
        Auto = "auto",
        /// QuickJS only.
        QuickJs = "quickjs",
        /// V8 in the user's deno.
        V8 = "v8",
    }
}

choice! {
    /// How runs are isolated from each other.
    Isolation {
        /// A confined process for each run.
        Process = "process",
        /// A thread of this process for each run.
        Thread = "thread",
    }
}

choice! {
    /// What becomes of a durable run with a call that was sent before a crash and never answered.
    UnknownCalls {
        /// A person is asked where the policy asks about any call; otherwise the run ends.
        Auto = "auto",
        /// A person decides whether it is sent again.
        Ask = "ask",
        /// The run ends and names the call.
        End = "end",
    }
}

choice! {
    /// Whether a process that ran a program may run another one.
    Reuse {
        /// Each run has a fresh process.
        Never = "never",
        /// For the same caller, after the host has put the process back.
        SameCaller = "same_caller",
    }
}

choice! {
    /// How a result is written.
    ResultFormat {
        /// The shortest of the others.
        Auto = "auto",
        /// Indented JSON.
        Pretty = "pretty",
        /// JSON without white space.
        Compact = "compact",
        /// Lists of records as one header and rows.
        Table = "table",
    }
}

choice! {
    /// Which tools an agent sees.
    Mode {
        /// The tools of code mode.
        Code = "code",
        /// The backends' own tools.
        Direct = "direct",
        /// Both.
        Both = "both",
    }
}

choice! {
    /// When a server is started.
    Start {
        /// When Toolgate starts.
        Eager = "eager",
        /// At the first call, if the tool cache knows its tools; else when Toolgate starts.
        Lazy = "lazy",
    }
}

choice! {
    /// Whether programs may send HTTP requests to hosts of their own choice.
    EgressWord {
        /// To no host.
        Off = "off",
        /// To every public host.
        All = "all",
    }
}

choice! {
    /// How clients on this machine identify themselves to the HTTP service where there are no keys.
    HttpAuth {
        /// By the token in a file that only this user can read.
        Token = "token",
        /// Not at all: every user of this machine may connect.
        None = "none",
    }
}

choice! {
    /// Who may read the metrics of the HTTP service.
    MetricsAccess {
        /// Every caller of the service, and the holder of the key for metrics.
        Callers = "callers",
        /// The holder of the key for metrics only.
        Key = "key",
        /// Everyone who reaches the service.
        Open = "open",
    }
}

choice! {
    /// The transport of a server, with the spellings of other clients.
    TransportKind {
        /// A child process that communicates over stdin and stdout.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http" | "streamable-http" | "streamableHttp" | "streamable_http",
        /// The HTTP+SSE transport of 2024.
        Sse = "sse",
        /// An HTTP API with an OpenAPI document.
        OpenApi = "openapi",
    }
}

choice! {
    /// How a login at a server comes about.
    LoginGrant {
        /// A person logs in with a browser.
        AuthorizationCode = "authorization_code",
        /// The configured client logs in by itself.
        ClientCredentials = "client_credentials",
    }
}

choice! {
    /// Where secrets and logins are kept.
    SecretPlace {
        /// In the keyring of the system, or in encrypted files where there is none.
        Auto = "auto",
        /// In the keyring of the system.
        Keyring = "keyring",
        /// In encrypted files.
        File = "file",
    }
}

choice! {
    /// The method of a configured HTTP function.
    Method {
        /// GET.
        Get = "GET",
        /// POST.
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// PATCH.
        Patch = "PATCH",
        /// DELETE.
        Delete = "DELETE",
    }
}
choice! {
    /// What a rule of the policy does.
    PolicyAction {
        /// The call is made.
        Allow = "allow",
        /// A person decides.
        Ask = "ask",
        /// The call is not made.
        Deny = "deny",
    }
}

choice! {
    /// An annotation of a tool.
    PolicyAnnotation {
        /// It changes nothing.
        ReadOnly = "readOnly" | "readOnlyHint",
        /// It may change or delete what is there.
        Destructive = "destructive" | "destructiveHint",
        /// It may reach beyond a closed system.
        OpenWorld = "openWorld" | "openWorldHint",
    }
}

choice! {
    /// The kind of run that a call belongs to.
    PolicyProfile {
        /// A chain of tool calls.
        Chain = "chain",
        /// A quick snippet.
        Snippet = "snippet",
        /// A pure function over data.
        Compute = "compute",
        /// No run: a call of its own.
        Direct = "direct",
    }
}
