//! Header values round-trip; annotations of any schema are parsed or rejected.

use mcp_protocol::Json;
use mcp_protocol::codec::header::{decode, encode};
use mcp_protocol::codec::param_header::ParamHeaders;

/// Accepts any bytes.
pub(crate) fn values_come_back(bytes: &[u8]) {
    if let Ok(decoded) = decode(bytes) {
        let encoded = encode(&decoded);
        assert_eq!(decode(encoded.as_bytes()).unwrap(), decoded);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let encoded = encode(text);
    assert!(encoded.bytes().all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte)));
    assert_eq!(decode(encoded.as_bytes()).unwrap(), text);
    if let Ok(schema) = text.parse::<Json>()
        && let Ok(headers) = ParamHeaders::of(&schema)
    {
        let arguments = schema.to().unwrap_or_default();
        if let Ok(values) = headers.values(&arguments) {
            let lookup = |name: &str| {
                values.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_bytes()).collect()
            };
            headers.check(&arguments.to_string(), lookup).unwrap();
        }
    }
}
