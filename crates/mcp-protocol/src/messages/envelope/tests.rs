use super::*;

fn message(text: &str) -> Result<Message<'_>, DecodeError> {
    match parse(text, &Limits::default())? {
        Incoming::Message(message) => Ok(message),
        Incoming::Batch(_) => panic!("a batch"),
    }
}

#[track_caller]
fn fails(text: &str, kind: DecodeErrorKind) {
    assert_eq!(message(text).unwrap_err().kind, kind, "{text}");
}

#[test]
fn ids_keep_their_type_and_value() {
    for (text, id) in [
        ("1", Id::from(1)),
        ("-9223372036854775808", Id::from(i64::MIN)),
        ("9223372036854775807", Id::from(i64::MAX)),
        ("\"1\"", Id::from("1")),
        ("\"\"", Id::from("")),
        (r#""a\u0062\n""#, Id::from("ab\n")),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"ping"}}"#);
        let Ok(Message::Request(request)) = message(&text) else { panic!("{text}") };
        assert_eq!(request.id, id);
    }
}

#[test]
fn id_other_than_string_or_64_bit_integer_is_refused() {
    for id in ["null", "1.0", "1e2", "1.5", "-0", "9223372036854775808", "true", "{}", "[1]", "\"\\ud800\""] {
        fails(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#), DecodeErrorKind::Id);
    }
    let long = "x".repeat(1025);
    fails(&format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#), DecodeErrorKind::Id);
}

#[test]
fn ambiguous_or_malformed_messages_are_refused() {
    use DecodeErrorKind::*;
    fails(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, Ambiguous);
    fails(r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, Ambiguous);
    fails(r#"{"jsonrpc":"2.0","id":1}"#, Ambiguous);
    fails(r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, Version);
    fails(r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, Version);
    fails(r#"{"id":1,"method":"a"}"#, Version);
    fails(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Method);
    fails(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#, Params);
    fails(r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, Result);
    fails(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Result);
    fails(r#"{"jsonrpc":"2.0","result":{}}"#, Id);
    fails(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#, Error);
    fails("7", NotAnObject);
    fails("{}", Version);
    fails("{} {}", NotJson { at: 3 });
}

#[test]
fn error_response_may_omit_its_id() {
    for id in ["", r#""id":null,"#] {
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"?","data":null}}}}"#);
        let Ok(Message::Response(response)) = message(&text) else { panic!() };
        assert_eq!(response.id, None);
        // `null` is a valid value of `data`.
        assert!(response.outcome.unwrap_err().data.unwrap().is_null());
    }
}

#[test]
fn duplicate_known_member_is_rejected() {
    fails(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, DecodeErrorKind::Duplicate("id"));
    fails(r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#, DecodeErrorKind::Duplicate("method"));
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"x","name":"y"}}"#;
    let Ok(Message::Request(request)) = message(text) else { panic!() };
    assert!(request.params.member("name").is_err());
    assert!(request.params.parse::<crate::tools::CallToolParams>().is_err());
}

#[test]
fn escapes_in_keys_and_methods_are_decoded() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"n\u0061me":"x"}}"#;
    let Ok(Message::Request(request)) = message(text) else { panic!() };
    assert_eq!(request.method, Method::ToolsCall);
    assert_eq!(request.params.member("name").unwrap(), Some("\"x\""));
}

#[test]
fn body_with_many_members_is_searched() {
    let members: Vec<String> = (0..20).map(|n| format!(r#""m{n}":{n}"#)).collect();
    let text = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{{{},"name":[1]}}}}"#, members.join(","));
    let Ok(Message::Notification(notification)) = message(&text) else { panic!() };
    assert_eq!(notification.params.member("name").unwrap(), Some("[1]"));
    assert_eq!(notification.params.member("m19").unwrap(), Some("19"));
    assert_eq!(notification.params.member("m20").unwrap(), None);
}

#[test]
fn params_that_are_absent_or_null_are_empty() {
    for params in ["", r#","params":null"#, r#","params":{}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping"{params}}}"#);
        let Ok(Message::Request(request)) = message(&text) else { panic!() };
        assert_eq!(request.params.text(), "{}");
    }
}

#[test]
fn decode_error_carries_the_id_and_kind_read_so_far() {
    let error = message(r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#).unwrap_err();
    assert_eq!((error.id, error.shape), (Some(7.into()), crate::errors::MessageShape::Response));
    let error = message(r#"{"jsonrpc":"2.0","id":7,"method":"a","params":"#).unwrap_err();
    assert_eq!((error.id, error.shape), (Some(7.into()), crate::errors::MessageShape::Request));
    let error = message(r#"{"jsonrpc":"2.0","result":{"a":"#).unwrap_err();
    assert_eq!(error.id, None);
}

#[test]
fn invalid_utf8_is_rejected_at_any_position() {
    let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{},\"ignored\":\"\xff\"}";
    let error = parse_bytes(bytes, &Limits::default()).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::NotUtf8 { at: 47 });
    assert_eq!(error.id, Some(7.into()));
}

#[test]
fn batch_is_split_into_messages_and_its_length_is_limited() {
    let batch = |text: &str| match parse(text, &Limits::default().batch(2)) {
        Ok(Incoming::Batch(batch)) => Ok(batch.messages().map(|message| message.is_ok()).collect::<Vec<_>>()),
        Ok(_) => panic!("no batch"),
        Err(error) => Err(error.kind),
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(batch(&format!("[{ping},7]")), Ok(vec![true, false]));
    assert_eq!(batch(&format!("[[{ping}]]")), Ok(vec![false]));
    assert_eq!(batch("[]"), Err(DecodeErrorKind::Batch { limit: 2 }));
    assert_eq!(batch("[1,2,3]"), Err(DecodeErrorKind::Batch { limit: 2 }));
    assert_eq!(batch("[1,"), Err(DecodeErrorKind::NotJson { at: 3 }));
}

#[test]
fn id_that_may_be_truncated_is_not_used() {
    let text = r#"{"jsonrpc":"2.0","result":{},"id":1234"#;
    assert_eq!(salvage_id(text.as_bytes()).id, None);
    assert_eq!(salvage_id(&[text.as_bytes(), b","].concat()).id, Some(1234.into()));
    // The same applies to an id before a byte that is not UTF-8.
    let broken = [text.as_bytes(), b"\xff}"].concat();
    assert_eq!(parse_bytes(&broken, &Limits::default()).unwrap_err().id, None);
}

#[test]
fn malformed_message_is_classified_by_the_keys_read_so_far() {
    let shape = |text: &str| message(text).unwrap_err().shape;
    assert_eq!(shape(r#"{"id":1,"params":{"a":01},"method":"a"}"#), crate::errors::MessageShape::Unknown);
    assert_eq!(shape(r#"{"id":1,"method":"#), crate::errors::MessageShape::Request);
    assert_eq!(shape(r#"{"id":1,"error":{"#), crate::errors::MessageShape::Response);
}
