//! Settings that are one word out of a few.

use super::Setting;
use serde_json::{Value as Json, json};

macro_rules! choice {
    ($(#[doc = $about:literal])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal $(| $also:literal)*,)+ }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// The word that stands for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl Setting for $name {
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word $(| $also)* => Ok(Self::$variant),)+
                    _ => Err(format!("is not one of {}", [$($word),+].join(", "))),
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
        /// QuickJS, moving to V8 when a run gets heavy and deno is there.
        Auto = "auto",
        /// QuickJS only.
        QuickJs = "quickjs",
        /// V8 by the user's deno.
        V8 = "v8",
    }
}

choice! {
    /// How runs are kept apart.
    Isolation {
        /// A confined process for each run.
        Process = "process",
        /// A thread of this process for each run.
        Thread = "thread",
    }
}

choice! {
    /// What an agent sees.
    Mode {
        /// The few tools of code mode.
        Code = "code",
        /// The backends' own tools.
        Direct = "direct",
        /// Both.
        Both = "both",
    }
}

choice! {
    /// How a server is reached, in the words of the clients' files.
    TransportKind {
        /// A child process that speaks on its standard streams.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http" | "streamable-http" | "streamableHttp" | "streamable_http",
        /// The HTTP+SSE transport of 2024.
        Sse = "sse",
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
