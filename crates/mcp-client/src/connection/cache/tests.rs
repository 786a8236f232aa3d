use mcp_protocol::messages::Body;

use super::entries::{MAX_BYTES, MAX_CHANGED_SERVERS, MAX_ENTRIES, size};
use super::*;

fn body(ttl: &str, scope: &str) -> OwnedBody {
    Body::of(&format!(r#"{{"ttlMs":{ttl},"cacheScope":"{scope}"}}"#)).unwrap().keep()
}

fn view(cache: &Cache, server: &str, principal: &str) -> CacheView {
    CacheView::new(cache.clone(), server.to_owned(), principal.to_owned())
}

fn keep(view: &CacheView, method: &Method, about: &str, body: &OwnedBody) {
    let Err(Some(request)) = view.find(method, about) else { panic!() };
    view.keep(request, body);
}

fn has(view: &CacheView, method: &Method, about: &str) -> bool {
    view.find(method, about).is_ok()
}

#[tokio::test(start_paused = true)]
async fn response_is_fresh_for_its_ttl_but_at_most_one_day() {
    let view = view(&Cache::new(), "a", "me");
    for (ttl, seconds) in [("1000", 1), ("999999999999", 86400)] {
        keep(&view, &Method::ToolsList, "", &body(ttl, "private"));
        tokio::time::advance(Duration::from_secs(seconds) - Duration::from_millis(1)).await;
        assert!(has(&view, &Method::ToolsList, ""), "{ttl}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!has(&view, &Method::ToolsList, ""), "{ttl}");
    }
    for ttl in ["0", "-5", "1.5", "null"] {
        keep(&view, &Method::ToolsList, "", &body(ttl, "private"));
        assert!(!has(&view, &Method::ToolsList, ""), "{ttl}");
    }
    assert!(matches!(view.find(&Method::ToolsCall, ""), Err(None)), "a call is never cached");
}

#[tokio::test]
async fn private_responses_are_not_shared_between_principals() {
    let cache = Cache::new();
    let (me, you, elsewhere) = (view(&cache, "a", "me"), view(&cache, "a", "you"), view(&cache, "b", "me"));
    keep(&me, &Method::ToolsList, "", &body("5000", "private"));
    keep(&me, &Method::PromptsList, "", &body("5000", "public"));
    // An unknown scope counts as private.
    keep(&me, &Method::ResourcesList, "", &body("5000", "Public"));
    assert!(has(&me, &Method::ToolsList, "") && !has(&you, &Method::ToolsList, ""));
    assert!(has(&you, &Method::PromptsList, "") && !has(&you, &Method::ResourcesList, ""));
    assert!(!has(&elsewhere, &Method::PromptsList, ""));
    assert!(!has(&me, &Method::ToolsList, "page 2"));
}

#[tokio::test]
async fn debug_output_does_not_show_cached_responses() {
    let cache = Cache::new();
    keep(&view(&cache, "a", "me"), &Method::ResourcesRead, "note://diary", &body("5000", "private"));
    let shown = format!("{cache:?} {:?}", view(&cache, "a", "you"));
    assert!(shown.contains("entries: 1"), "{shown}");
    assert!(!shown.contains("diary") && !shown.contains("ttlMs") && !shown.contains("me"), "{shown}");
}

#[tokio::test]
async fn cursors_count_towards_the_byte_limit() {
    let cache = Cache::new();
    let view = view(&cache, "a", "me");
    for number in 0..100 {
        let cursor = format!("{number}{}", "x".repeat(1 << 20));
        keep(&view, &Method::ToolsList, &cursor, &body("5000", "private"));
    }
    let entries = cache.lock().unwrap();
    let held: usize = entries.kept.keys().map(|key| key.about.len()).sum();
    assert!(held <= MAX_BYTES && entries.kept.len() < 17, "{held}");
}

#[tokio::test]
async fn change_evicts_matching_entries_and_discards_older_responses() {
    let cache = Cache::new();
    let view = view(&cache, "a", "me");
    let all = || {
        cache.clear();
        for (method, about) in [
            (Method::ToolsList, ""),
            (Method::ToolsList, "page 2"),
            (Method::PromptsList, ""),
            (Method::ResourcesList, ""),
            (Method::ResourceTemplatesList, ""),
            (Method::ResourcesRead, "a:b"),
            (Method::ResourcesRead, "a:c"),
        ] {
            keep(&view, &method, about, &body("5000", "private"));
        }
    };
    let left = || cache.lock().unwrap().kept.len();
    for (change, count) in [
        (Change::Tools, 5),
        (Change::Prompts, 6),
        (Change::Resources, 5),
        (Change::Resource("a:b".to_owned()), 6),
        (Change::Gap, 0),
    ] {
        all();
        view.changed(&change);
        assert_eq!(left(), count, "{change:?}");
    }
    all();
    view.drop_pages(&Method::ToolsList);
    assert_eq!(left(), 5);
    let Err(Some(request)) = view.find(&Method::ToolsList, "") else { panic!() };
    view.changed(&Change::Tools);
    view.keep(request, &body("5000", "private"));
    assert!(!has(&view, &Method::ToolsList, ""), "it was older than the change");
    // Another connection may have received the change.
    let other = CacheView::new(cache.clone(), "a".to_owned(), "me".to_owned());
    let Err(Some(request)) = view.find(&Method::ToolsList, "") else { panic!() };
    other.changed(&Change::Tools);
    view.keep(request, &body("5000", "private"));
    assert!(
        !has(&view, &Method::ToolsList, ""),
        "it was older than the change that another connection received"
    );
    let none = CacheView::new(Cache::none(), "a".to_owned(), "me".to_owned());
    assert!(matches!(none.find(&Method::ToolsList, ""), Err(None)));
}

#[tokio::test]
async fn cache_is_bounded_in_entries_and_bytes() {
    let cache = Cache::new();
    let view = view(&cache, "a", "me");
    for number in 0..MAX_ENTRIES + 10 {
        keep(&view, &Method::ResourcesRead, &number.to_string(), &body("5000", "private"));
    }
    let long = format!(r#"{{"ttlMs":5000,"x":"{}"}}"#, "x".repeat(MAX_BYTES / 5));
    for number in 0..10 {
        let body = Body::of(&long).unwrap().keep();
        keep(&view, &Method::ResourcesRead, &format!("long {number}"), &body);
    }
    let entries = cache.lock().unwrap();
    assert!(entries.kept.len() <= MAX_ENTRIES && entries.bytes <= MAX_BYTES);
    assert_eq!(entries.bytes, entries.kept.iter().map(|(key, entry)| size(key, entry)).sum::<usize>());
}

#[tokio::test]
async fn changes_of_one_server_do_not_keep_out_answers_of_another() {
    let cache = Cache::new();
    let (noisy, quiet) = (view(&cache, "noisy", "me"), view(&cache, "quiet", "me"));
    let Err(Some(request)) = quiet.find(&Method::ToolsList, "") else { panic!() };
    for _ in 0..10 {
        noisy.changed(&Change::Tools);
    }
    quiet.keep(request, &body("5000", "private"));
    assert!(has(&quiet, &Method::ToolsList, ""));
    // Clearing affects all servers.
    let Err(Some(request)) = quiet.find(&Method::PromptsList, "") else { panic!() };
    cache.clear();
    quiet.keep(request, &body("5000", "private"));
    assert!(!has(&quiet, &Method::PromptsList, ""));
}

#[tokio::test]
async fn changes_are_counted_for_a_bounded_number_of_servers() {
    let cache = Cache::new();
    let first = view(&cache, "first", "me");
    let Err(Some(request)) = first.find(&Method::ToolsList, "") else { panic!() };
    first.changed(&Change::Tools);
    for number in 0..2 * MAX_CHANGED_SERVERS {
        view(&cache, &number.to_string(), "me").changed(&Change::Tools);
    }
    assert_eq!(cache.lock().unwrap().last_changes.len(), MAX_CHANGED_SERVERS);
    first.keep(request, &body("5000", "private"));
    assert!(!has(&first, &Method::ToolsList, ""), "its change is not forgotten");
    keep(&first, &Method::ToolsList, "", &body("5000", "private"));
    assert!(has(&first, &Method::ToolsList, ""));
}

#[tokio::test]
async fn server_that_fills_the_cache_does_not_displace_others() {
    let cache = Cache::new();
    let (greedy, modest) = (view(&cache, "greedy", "me"), view(&cache, "modest", "me"));
    let text = |ttl: u64, bytes: usize| {
        let padding = "x".repeat(bytes);
        Body::of(&format!(r#"{{"ttlMs":{ttl},"p":"{padding}"}}"#)).unwrap().keep()
    };
    for page in 0..4 {
        keep(&greedy, &Method::ToolsList, &page.to_string(), &text(u64::MAX, MAX_BYTES / 4 - 100));
    }
    for number in 0..100 {
        keep(&modest, &Method::ResourcesRead, &number.to_string(), &text(600_000, 1000));
    }
    let kept = |view: &CacheView, method, count: u32| {
        (0..count).filter(|number| has(view, method, &number.to_string())).count()
    };
    assert_eq!(kept(&modest, &Method::ResourcesRead, 100), 100);
    assert_eq!(kept(&greedy, &Method::ToolsList, 4), 3);
}

#[tokio::test]
async fn many_small_entries_of_one_server_do_not_displace_others() {
    let cache = Cache::new();
    let (greedy, modest) = (view(&cache, "greedy", "me"), view(&cache, "modest", "me"));
    let large = format!(r#"{{"ttlMs":5000,"p":"{}"}}"#, "x".repeat(1 << 20));
    keep(&modest, &Method::ToolsList, "", &Body::of(&large).unwrap().keep());
    for number in 0..MAX_ENTRIES + 100 {
        keep(&greedy, &Method::ResourcesRead, &number.to_string(), &body("99999999", "private"));
    }
    assert!(has(&modest, &Method::ToolsList, ""));
    assert_eq!(cache.lock().unwrap().kept.len(), MAX_ENTRIES);
}
