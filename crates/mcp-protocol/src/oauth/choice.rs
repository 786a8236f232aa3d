//! Chooses the login method: a browser on this machine, or a code that the user enters on any device.
//!
//! | the program wants | the server offers | a browser can be opened | method |
//! |---|---|---|---|
//! | a browser | the authorization code flow | any | browser |
//! | a code | the device flow | any | code |
//! | either | both | yes | browser |
//! | either | both | no | code |
//! | either | only the authorization code flow | any | browser, with the address pasted back if it is on another machine |
//! | either | only the device flow | any | code |
//!
//! In all other cases, the login is not possible.

/// A way to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginMethod {
    /// The authorization code flow: the user logs in with a browser, which returns to this program.
    Browser,
    /// The device flow: the user enters a code on a page, on any device.
    Code,
}

/// The facts from which the login method follows.
///
/// ```
/// use mcp_protocol::oauth::choice::{LoginChoice, LoginMethod};
///
/// let choice = LoginChoice { wanted: None, has_browser_flow: true, has_code_flow: true, can_open_browser: false };
/// assert_eq!(choice.method(), Ok(LoginMethod::Code));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginChoice {
    /// The method that the program wants, if it wants one.
    pub wanted: Option<LoginMethod>,
    /// The authorization server has an authorization endpoint, and supports PKCE with S256.
    pub has_browser_flow: bool,
    /// The authorization server has a device authorization endpoint.
    pub has_code_flow: bool,
    /// A browser can be opened on this machine.
    pub can_open_browser: bool,
}

impl LoginChoice {
    /// Returns the method.
    ///
    /// # Errors
    /// Fails with what the authorization server lacks, as a clause for people.
    pub fn method(&self) -> Result<LoginMethod, &'static str> {
        match (self.wanted, self.has_browser_flow, self.has_code_flow) {
            (Some(LoginMethod::Browser), false, _) => {
                Err("it does not support logins with a browser (`authorization_endpoint`, and `S256` in \
                 `code_challenge_methods_supported`)")
            }
            (Some(LoginMethod::Code), _, false) => {
                Err("it does not support logins with a code (`device_authorization_endpoint`)")
            }
            (Some(wanted), _, _) => Ok(wanted),
            (None, true, true) if self.can_open_browser => Ok(LoginMethod::Browser),
            (None, _, true) => Ok(LoginMethod::Code),
            (None, true, false) => Ok(LoginMethod::Browser),
            (None, false, false) => {
                Err("it supports neither logins with a browser (`authorization_endpoint`, and `S256` in \
                 `code_challenge_methods_supported`) nor with a code (`device_authorization_endpoint`)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_is_chosen_as_in_the_table() {
        let choose = |wanted, has_browser_flow, has_code_flow, can_open_browser| {
            LoginChoice { wanted, has_browser_flow, has_code_flow, can_open_browser }.method()
        };
        let (browser, code) = (Some(LoginMethod::Browser), Some(LoginMethod::Code));
        for can_open in [true, false] {
            let auto = if can_open { LoginMethod::Browser } else { LoginMethod::Code };
            for (wanted, has_browser_flow, has_code_flow, expected) in [
                (browser, true, true, Some(LoginMethod::Browser)),
                (browser, true, false, Some(LoginMethod::Browser)),
                (browser, false, true, None),
                (browser, false, false, None),
                (code, true, true, Some(LoginMethod::Code)),
                (code, false, true, Some(LoginMethod::Code)),
                (code, true, false, None),
                (code, false, false, None),
                (None, true, true, Some(auto)),
                (None, true, false, Some(LoginMethod::Browser)),
                (None, false, true, Some(LoginMethod::Code)),
                (None, false, false, None),
            ] {
                let chosen = choose(wanted, has_browser_flow, has_code_flow, can_open);
                assert_eq!(chosen.ok(), expected, "{wanted:?} {has_browser_flow} {has_code_flow} {can_open}");
            }
        }
        assert!(choose(browser, false, true, true).unwrap_err().contains("authorization_endpoint"));
        assert!(choose(code, true, false, true).unwrap_err().contains("device_authorization_endpoint"));
        assert!(choose(None, false, false, true).unwrap_err().contains("neither"));
    }
}
