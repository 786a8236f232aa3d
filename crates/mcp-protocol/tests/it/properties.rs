//! Properties that must hold for any input, tested with random input and past failures.

#[path = "../properties/mod.rs"]
mod any;

use proptest::prelude::*;

/// Runs a property over the corpus of a fuzz target; returns the number of files.
fn replay(target: &str, property: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let file = file.unwrap().path();
        println!("{}", file.display());
        property(&std::fs::read(file).unwrap());
        count += 1;
    }
    assert!(count > 0, "the corpus of {target} is empty");
}

macro_rules! corpora {
    ($($name:ident: $target:literal => $property:path;)*) => { $(
        #[test]
        fn $name() {
            replay($target, $property);
        }
    )* };
}

corpora! {
    corpus_of_envelopes_holds: "envelope" => any::envelope::agrees_with_serde_json;
    corpus_of_lines_holds: "line" => any::line::does_not_depend_on_the_cuts;
    corpus_of_events_holds: "sse" => any::sse::does_not_depend_on_the_cuts;
    corpus_of_headers_holds: "header" => any::header::values_come_back;
    corpus_of_interleavings_holds: "peers" => any::peers::settle_every_call_once;
}

/// Generates text that resembles a message.
fn messages() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "null|true|false|-?[0-9]{1,22}|-?[0-9]\\.[0-9]{1,3}(e[+-]?[0-9]{1,3})?|1e999|-0|01|\\.5",
        "\"([a-z_/ ]|\\\\n|\\\\u00e9|\\\\ud800|\\\\\"|é){0,12}\"",
    ];
    let value = scalar.prop_recursive(4, 24, 4, |inner| {
        let key = "\"(name|arguments|_meta|id|a|\\\\u006eame)\"";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key, inner), 0..4).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", members.join(",\n"))
            }),
        ]
    });
    let key = "\"(jsonrpc|id|method|params|result|error|x)\"";
    let version = Just("\"2.0\"".to_owned());
    let member = (key, prop_oneof![value.clone(), version, Just("\"tools/call\"".to_owned())]);
    prop::collection::vec(member, 0..6).prop_map(|members| {
        let members: Vec<String> =
            members.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
        format!("{{{}}}", members.join(", "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn parser_agrees_with_serde_json_on_generated_messages(text in messages()) {
        any::envelope::agrees_with_serde_json(text.as_bytes());
    }

    #[test]
    fn parser_agrees_with_serde_json_on_corrupted_messages(text in messages(), at in 0_usize..200, byte: u8) {
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        any::envelope::agrees_with_serde_json(&bytes);
        any::envelope::agrees_with_serde_json(&bytes[..at]);
    }

    #[test]
    fn lines_do_not_depend_on_chunk_boundaries(stream in "((\u{feff})?[ a{}\"]{0,40}|\r|\n|\r\n){0,12}", seed: u8) {
        let mut input = vec![seed];
        input.extend(stream.bytes());
        any::line::does_not_depend_on_the_cuts(&input);
    }

    #[test]
    fn events_do_not_depend_on_chunk_boundaries(
        stream in "((\u{feff})?(data|event|id|retry|)(:| |: |)(\u{feff})?[ a1\u{0}é]{0,30}(\r|\n|\r\n)|\r|\n|\r\n){0,14}",
        seed: u8,
    ) {
        let mut input = vec![seed];
        input.extend(stream.bytes());
        any::sse::does_not_depend_on_the_cuts(&input);
    }

    #[test]
    fn header_values_round_trip_for_any_bytes(text in "(=\\?base64\\?)?[ -~é\t\r\n]{0,20}(\\?=)?") {
        any::header::values_come_back(text.as_bytes());
    }

    #[test]
    fn interleavings_settle_every_call_once(script in prop::collection::vec(proptest::prelude::any::<u8>(), 0..120)) {
        any::peers::settle_every_call_once(&script);
    }
}
