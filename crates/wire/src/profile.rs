//! The three kinds of run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kind of a run: decides which globals exist and which limits apply by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// A pure function over data: no timers, no host calls, no async.
    Compute,
    /// A program that calls tools.
    Chain,
    /// A short program with host functions under `api`.
    Snippet,
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Profile; 3] = [Profile::Compute, Profile::Chain, Profile::Snippet];

    /// The name used on the command line and in requests.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Compute => "compute",
            Profile::Chain => "chain",
            Profile::Snippet => "snippet",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for each profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles<T> {
    /// The value for [`Profile::Compute`].
    pub compute: T,
    /// The value for [`Profile::Chain`].
    pub chain: T,
    /// The value for [`Profile::Snippet`].
    pub snippet: T,
}

impl<T> Profiles<T> {
    /// The value for this profile.
    pub fn of(&self, profile: Profile) -> &T {
        match profile {
            Profile::Compute => &self.compute,
            Profile::Chain => &self.chain,
            Profile::Snippet => &self.snippet,
        }
    }
}

/// The text is not the name of a profile.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a profile: use compute, chain or snippet")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        Profile::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_its_own_value() {
        let named = Profiles { compute: "compute", chain: "chain", snippet: "snippet" };
        for profile in Profile::ALL {
            assert_eq!(*named.of(profile), profile.name());
        }
    }
}
