use tokio::task::JoinHandle;

use super::*;

const ISSUER: &str = "https://as.example";

/// A login that waits for its response.
struct Waiting {
    port: u16,
    code: JoinHandle<Result<String, OAuthError>>,
    paste: mpsc::Sender<String>,
}

async fn wait() -> Waiting {
    let listener = RedirectListener::bind([0]).await.unwrap();
    assert_eq!(listener.address(), format!("http://127.0.0.1:{}/callback", listener.port));
    let (port, (paste, mut pasted)) = (listener.port, mpsc::channel(4));
    let code = tokio::spawn(async move {
        let expected = ExpectedRedirect { state: "s1", issuer: ISSUER, names_issuer: false };
        listener.code(&expected, &mut pasted).await
    });
    Waiting { port, code, paste }
}

impl Waiting {
    /// Sends a request as a browser does, and returns the response.
    async fn get(&self, target: &str) -> Option<String> {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port)).await
    }

    async fn send(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await.ok()?;
        Some(response)
    }

    async fn end(self) -> Result<String, OAuthError> {
        let ended = tokio::time::timeout(Duration::from_secs(20), self.code).await;
        let code = ended.unwrap().unwrap();
        // The port is closed afterwards.
        assert!(TcpStream::connect(("127.0.0.1", self.port)).await.is_err());
        code
    }
}

#[tokio::test]
async fn first_valid_response_ends_the_login_and_the_page_is_fixed() {
    let waiting = wait().await;
    for (target, status) in [
        ("/callback?code=c&state=wrong", "400"),
        ("/callback?error=access_denied&state=wrong", "400"),
        ("/callback?state=s1", "400"),
        ("/callback", "400"),
        ("/callback/?code=c&state=s1", "404"),
        ("/favicon.ico", "404"),
        ("/?code=c&state=s1", "404"),
        (&format!("/callback?code={}&state=s1", "c".repeat(MAX_REQUEST_BYTES)), "404"),
    ] {
        let response = waiting.get(target).await.unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert!(!response.contains("wrong") && !response.contains("access_denied"), "{response}");
    }
    let posted =
        waiting.send("POST /callback?code=c&state=s1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
    assert!(posted.unwrap().starts_with("HTTP/1.1 404 "));
    let response = waiting.get("/callback?code=c%2F1&state=s1").await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("You are logged in."), "{response}");
    for header in [
        "content-security-policy: default-src 'none'",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
    ] {
        assert!(response.contains(header), "{response}");
    }
    assert!(!response.contains("c%2F1") && !response.contains("c/1"), "{response}");
    assert_eq!(waiting.end().await.unwrap(), "c/1");
}

#[tokio::test]
async fn script_in_a_description_is_never_sent_back() {
    let waiting = wait().await;
    let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let target = format!("/callback?error=server_error&error_description={script}&state=s1");
    let response = waiting.get(&target).await.unwrap();
    assert!(response.contains("The login failed.") && !response.contains("script"), "{response}");
    let error = waiting.end().await.unwrap_err();
    assert!(error.is_code("server_error"), "{error}");
}

#[tokio::test]
async fn refusals_and_foreign_responses_have_their_own_errors() {
    for (query, expected) in [
        ("error=access_denied&state=s1", "the user refused the login"),
        (
            "code=c&state=s1&iss=https%3A%2F%2Fevil.example",
            "the response to the login comes from another authorization server",
        ),
        (
            "error=x&error_description=evil&state=s1&iss=https%3A%2F%2Fevil.example",
            "the response to the login comes from another authorization server",
        ),
    ] {
        let waiting = wait().await;
        waiting.get(&format!("/callback?{query}")).await.unwrap();
        assert_eq!(waiting.end().await.unwrap_err().to_string(), expected);
    }
}

#[tokio::test]
async fn pasted_address_is_as_good_as_the_browser() {
    let long = "x".repeat(5000);
    let broken: String = format!("http://127.0.0.1:1/callback?code={long}&state=s1#fragment")
        .as_bytes()
        .chunks(80)
        .map(|line| format!("{}\n  ", String::from_utf8_lossy(line)))
        .collect();
    for (text, code) in
        [("code=c&state=s1", "c"), ("  http://127.0.0.1:9/callback?state=s1&code=c\n", "c"), (&broken, &long)]
    {
        let waiting = wait().await;
        // Something else is ignored.
        waiting.paste.send("hello".to_owned()).await.unwrap();
        waiting.paste.send("http://127.0.0.1:9/callback?code=c&state=other".to_owned()).await.unwrap();
        waiting.paste.send(text.to_owned()).await.unwrap();
        assert_eq!(waiting.end().await.unwrap(), code);
    }
}

#[tokio::test]
async fn address_pasted_line_by_line_is_put_together() {
    let waiting = wait().await;
    for line in ["something else", "http://127.0.0.1:9/callback?co", "de=abc&st", "ate=s1"] {
        waiting.paste.send(line.to_owned()).await.unwrap();
    }
    assert_eq!(waiting.end().await.unwrap(), "abc");
}

#[tokio::test]
async fn connections_that_send_nothing_do_not_block_the_login() {
    let waiting = wait().await;
    let mut idle = Vec::new();
    for _ in 0..MAX_CONNECTIONS - 1 {
        idle.push(TcpStream::connect(("127.0.0.1", waiting.port)).await.unwrap());
    }
    assert!(waiting.get("/callback?code=c&state=s1").await.unwrap().contains("You are logged in."));
    assert_eq!(waiting.end().await.unwrap(), "c");
}

#[tokio::test]
async fn floods_are_bounded_and_a_dropped_login_closes_its_port() {
    let waiting = wait().await;
    let flood = "x".repeat(64 << 10);
    for head in
        ["GET /callback?code=", "GET /callback?code=c&state=s1 HTTP/1.1\r\nContent-Length: -1\r\nA: ", "\0\0"]
    {
        let mut stream = TcpStream::connect(("127.0.0.1", waiting.port)).await.unwrap();
        // At most 100 MiB; the connection is closed long before.
        let mut sent = stream.write_all(head.as_bytes()).await;
        for _ in 0..1600 {
            if sent.is_err() {
                break;
            }
            sent = stream.write_all(flood.as_bytes()).await;
        }
        assert!(sent.is_err(), "{head}");
    }
    // Half a request, and the same response twice at once.
    let mut half = TcpStream::connect(("127.0.0.1", waiting.port)).await.unwrap();
    half.write_all(b"GET /callback?code=c&sta").await.unwrap();
    let valid = "/callback?code=c&state=s1";
    let (one, other) = tokio::join!(waiting.get(valid), waiting.get(valid));
    let pages = [one, other].into_iter().flatten().filter(|page| page.contains("You are logged in.")).count();
    assert_eq!(pages, 1);
    assert_eq!(waiting.end().await.unwrap(), "c");

    let dropped = wait().await;
    dropped.code.abort();
    assert!(dropped.code.await.unwrap_err().is_cancelled());
    assert!(TcpStream::connect(("127.0.0.1", dropped.port)).await.is_err());
}

#[tokio::test]
async fn port_of_the_registration_is_used_if_it_is_free() {
    let taken = RedirectListener::bind([0]).await.unwrap();
    let free = RedirectListener::bind([0]).await.unwrap().port;
    assert_eq!(RedirectListener::bind([free, 0]).await.unwrap().port, free);
    assert_ne!(RedirectListener::bind([taken.port, 0]).await.unwrap().port, taken.port);
    let error = RedirectListener::bind([taken.port]).await.map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot listen on port {}", taken.port)), "{error}");
}
