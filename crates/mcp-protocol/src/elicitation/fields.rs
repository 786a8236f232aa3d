//! The fields of a form, in the order in which they are shown.

use std::fmt;

use super::FieldSchema;
use crate::dialect::{Fill, Lower, Lowering, Raise, Raising, Written, object, unknown_member};
use crate::json::read::{Read, Reader};

/// The fields of a form, in the order in which a person sees them: the order in which the server added them. A field is
/// found by its name.
///
/// ```
/// use mcp_protocol::elicitation::{BooleanSchema, FormFields, StringSchema};
///
/// let mut fields = FormFields::new();
/// fields.insert("name", StringSchema::new());
/// fields.insert("again", BooleanSchema::new());
/// assert_eq!(fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["name", "again"]);
/// assert!(fields.get("again").is_some());
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct FormFields {
    entries: Vec<(String, FieldSchema)>,
    /// Positions in `entries`, sorted by name.
    by_name: Vec<usize>,
}

impl FormFields {
    /// Creates a form without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), by_name: Vec::new() }
    }

    /// Adds a field after all others. If there is a field with this name, it is replaced and keeps its place, and the
    /// old one is returned.
    pub fn insert(&mut self, name: impl Into<String>, schema: impl Into<FieldSchema>) -> Option<FieldSchema> {
        let (name, schema) = (name.into(), schema.into());
        match self.find(&name) {
            Ok(at) => self.entries.get_mut(at).map(|(_, old)| std::mem::replace(old, schema)),
            Err(at) => {
                self.by_name.insert(at, self.entries.len());
                self.entries.push((name, schema));
                None
            }
        }
    }

    /// Returns the field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FieldSchema> {
        let at = self.find(name).ok()?;
        self.entries.get(at).map(|(_, schema)| schema)
    }

    /// Returns true if there is a field with this name.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns an iterator over names and fields, in the order of the form.
    pub fn iter(&self) -> std::slice::Iter<'_, (String, FieldSchema)> {
        self.entries.iter()
    }

    /// Returns the position of a field, or else the place of its name in `by_name`.
    fn find(&self, name: &str) -> Result<usize, usize> {
        let place = self.by_name.binary_search_by(|at| self.name(*at).cmp(name))?;
        self.by_name.get(place).copied().ok_or(place)
    }

    fn name(&self, at: usize) -> &str {
        self.entries.get(at).map_or("", |(name, _)| name)
    }

    /// Sorts `by_name` again. Of fields with the same name, only the last one is kept.
    fn sort(&mut self) {
        let mut by_name: Vec<usize> = (0..self.entries.len()).collect();
        by_name.sort_by(|one, other| self.name(*one).cmp(self.name(*other)));
        let replaced = |pair: &[usize]| match pair {
            [one, next] if self.name(*one) == self.name(*next) => Some(*one),
            _ => None,
        };
        let mut replaced: Vec<usize> = by_name.windows(2).filter_map(replaced).collect();
        if replaced.is_empty() {
            self.by_name = by_name;
            return;
        }
        replaced.sort_unstable();
        let mut at = 0..;
        self.entries.retain(|_| at.next().is_some_and(|at| replaced.binary_search(&at).is_err()));
        self.sort();
    }
}

impl fmt::Debug for FormFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, schema)| (name, schema))).finish()
    }
}

impl<N: Into<String>, S: Into<FieldSchema>> FromIterator<(N, S)> for FormFields {
    fn from_iter<I: IntoIterator<Item = (N, S)>>(fields: I) -> Self {
        let entries = fields.into_iter().map(|(name, schema)| (name.into(), schema.into())).collect();
        let mut fields = Self { entries, by_name: Vec::new() };
        fields.sort();
        fields
    }
}

impl IntoIterator for FormFields {
    type Item = (String, FieldSchema);
    type IntoIter = std::vec::IntoIter<(String, FieldSchema)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a FormFields {
    type Item = &'a (String, FieldSchema);
    type IntoIter = std::slice::Iter<'a, (String, FieldSchema)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Lower for FormFields {
    fn lower(&self, cx: Lowering<'_>, out: &mut Vec<u8>) -> Written {
        object(out, |out| {
            for (name, schema) in self {
                unknown_member(out, name, schema, cx)?;
            }
            Ok(())
        })
    }
}

impl Raise for FormFields {
    fn blank() -> Self {
        Self::new()
    }
}

impl Fill for FormFields {
    fn fill(&mut self, from: &mut Reader<'_>, how: Raising) -> Read<()> {
        from.map(&mut |from, name| {
            self.entries.push((name.into_owned(), FieldSchema::raise(from, how)?));
            Ok(())
        })?;
        self.sort();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elicitation::{BooleanSchema, FormSchema, StringSchema};

    fn names(fields: &FormFields) -> Vec<&str> {
        fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn fields_keep_their_order_and_the_last_duplicate_wins() {
        let (text, boolean) = (r#"{"type":"string"}"#, r#"{"type":"boolean"}"#);
        let fields = format!(r#"{{"z":{text},"b":{boolean},"a":{boolean},"b":{text}}}"#);
        let form = format!(r#"{{"type":"object","properties":{fields}}}"#);
        let form: FormSchema = serde_json::from_str(&form).unwrap();
        assert_eq!(names(&form.fields), ["z", "a", "b"]);
        assert_eq!(form.fields.get("b"), Some(&StringSchema::new().into()));
        assert_eq!(form.fields.get("c"), None);
        let again = serde_json::to_string(&form).unwrap();
        assert!(again.contains(&format!(r#"{{"z":{text},"a":{boolean},"b":{text}}}"#)), "{again}");
    }

    #[test]
    fn replaced_field_keeps_its_place() {
        let mut fields: FormFields =
            [("name", StringSchema::new()), ("again", StringSchema::new())].into_iter().collect();
        assert_eq!(fields.insert("name", BooleanSchema::new()), Some(StringSchema::new().into()));
        assert_eq!(fields.insert("more", BooleanSchema::new()), None);
        assert_eq!((names(&fields), fields.len()), (vec!["name", "again", "more"], 3));
        assert_eq!(fields.get("name"), Some(&BooleanSchema::new().into()));
        assert!(fields.contains_key("again") && !fields.contains_key("less"));
        assert!(FormFields::new().is_empty() && !fields.is_empty());
        assert_eq!(format!("{:?}", FormFields::new()), "{}");
        assert!(format!("{fields:?}").starts_with(r#"{"name": Boolean"#));
    }

    #[test]
    fn form_with_100_000_fields_is_read() {
        let field = |at| format!(r#""{:05}":{{"type":"boolean"}}"#, at % 50_000);
        let fields: Vec<String> = (0..100_000).rev().map(field).collect();
        let text = format!(r#"{{"type":"object","properties":{{{}}}}}"#, fields.join(","));
        let form: FormSchema = serde_json::from_str(&text).unwrap();
        assert_eq!((form.fields.len(), &*form.fields.iter().next().unwrap().0), (50_000, "49999"));
        assert!((0..50_000).all(|at| form.fields.contains_key(&format!("{at:05}"))));
    }
}
