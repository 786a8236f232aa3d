//! Which scopes a request needs, and which scopes include others.

use mcp_protocol::oauth::scopes::Scopes;

/// The scopes that every request needs, and the scopes that include others.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeRules {
    pub(crate) base: Scopes,
    /// Each scope with those that it includes, directly or through others.
    included: Vec<(String, Scopes)>,
}

impl ScopeRules {
    /// Creates the rules. `direct` contains each scope with those that it includes directly.
    pub(crate) fn new(base: Scopes, direct: &[(String, Scopes)]) -> Self {
        let included = direct.iter().map(|(scope, _)| (scope.clone(), reachable(scope, direct))).collect();
        Self { base, included }
    }

    /// Checks that the granted scopes allow an operation, which needs the scopes of every request and `more`.
    ///
    /// # Errors
    /// Fails with all scopes that the operation needs.
    pub(crate) fn check(&self, granted: &Scopes, more: &Scopes) -> Result<(), Scopes> {
        let is_allowed = |scope: &str| {
            granted.contains(scope)
                || self.included.iter().any(|(wide, all)| granted.contains(wide) && all.contains(scope))
        };
        if self.base.iter().chain(more.iter()).all(is_allowed) { Ok(()) } else { Err(self.base.union(more)) }
    }
}

/// Returns the scopes that `scope` includes, directly or through others.
fn reachable(scope: &str, direct: &[(String, Scopes)]) -> Scopes {
    let (mut found, mut open) = (Scopes::new(), vec![scope]);
    while let Some(next) = open.pop() {
        for narrower in direct.iter().filter(|(wide, _)| wide == next).flat_map(|(_, scopes)| scopes.iter()) {
            if !found.contains(narrower) {
                found.insert(narrower);
                open.push(narrower);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_scopes_include_narrow_ones() {
        let scopes = Scopes::parse;
        let direct = [
            ("admin".to_owned(), scopes("write")),
            ("write".to_owned(), scopes("read admin")),
            ("x".to_owned(), scopes("x")),
        ];
        let rules = ScopeRules::new(scopes("read"), &direct);
        for (granted, more, expected) in [
            ("read", "", true),
            ("", "", false),
            ("write", "", true),
            ("admin", "write", true),
            ("read", "write", false),
            ("write", "delete", false),
            ("write delete", "delete", true),
            ("x", "", false),
        ] {
            let checked = rules.check(&scopes(granted), &scopes(more));
            assert_eq!(checked.is_ok(), expected, "{granted}, {more}");
            if let Err(needed) = checked {
                assert_eq!(needed, scopes("read").union(&scopes(more)));
            }
        }
        assert_eq!(ScopeRules::default().check(&Scopes::new(), &Scopes::new()), Ok(()));
    }
}
