//! The options of the misbehaving server.

/// The faults that occur before the first call.
#[derive(Default)]
pub(super) struct Options {
    pub(super) era: Era,
    pub(super) discover: Option<String>,
    pub(super) initialize: Option<String>,
    pub(super) discover_as: Option<String>,
    pub(super) noise: usize,
    pub(super) has_mark: bool,
    pub(super) asks_first: bool,
    pub(super) silent: usize,
    pub(super) dies_of: Option<String>,
    pub(super) lives: Option<String>,
    pub(super) silent_later: bool,
    pub(super) refuses_later: bool,
    pub(super) exit: Option<i32>,
    pub(super) is_stubborn: bool,
    pub(super) list: Option<String>,
    pub(super) says: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Era {
    Legacy,
    Modern,
    #[default]
    Both,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(|value| (*value).to_owned()).ok_or(format!("`{word}` needs a value"));
            match *word {
                "--era" => {
                    options.era = match value()?.as_str() {
                        "legacy" => Era::Legacy,
                        "modern" => Era::Modern,
                        "both" => Era::Both,
                        _ => return Err("`--era` is legacy, modern or both".to_owned()),
                    }
                }
                "--discover" => options.discover = Some(value()?),
                "--initialize" => options.initialize = Some(value()?),
                "--discover-as" => options.discover_as = Some(value()?),
                "--noise" => options.noise = number(&value()?)?,
                "--bom" => options.has_mark = true,
                "--request-first" => options.asks_first = true,
                "--silent" => options.silent = number(&value()?)?,
                "--dies-of" => options.dies_of = Some(value()?),
                "--silent-later" => options.silent_later = true,
                "--refuses-later" => options.refuses_later = true,
                "--lives" => options.lives = Some(value()?),
                "--exit" => options.exit = Some(number(&value()?)?),
                "--stubborn" => options.is_stubborn = true,
                "--list" => options.list = Some(value()?),
                "--says" => options.says = Some(value()?),
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}
