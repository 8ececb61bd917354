//! What is asked of both.

use kodiak_testkit::simulate::Request;

pub(super) fn all() -> Vec<Request> {
    [hosts(), paths(), headers(), queries(), rewrites(), redirects(), changes(), permissions()].concat()
}

fn get(path: &str) -> Request {
    Request::get("any.test", path)
}

fn hosts() -> Vec<Request> {
    let hosts = [
        "exact.test",
        "EXACT.test",
        "exact.test:8080",
        "exact.test:8081",
        "www.suffix.test",
        ".suffix.test",
        "suffix.test",
        "a.long.suffix.test",
        "a.longer.long.suffix.test",
        "prefix.anything",
        "prefix.",
        "prefix.suffix.test",
    ];
    let mut all: Vec<_> = hosts.iter().map(|host| Request::get(host, "/only/this")).collect();
    all.push(Request::get("exact.test", "/open"));
    all
}

fn paths() -> Vec<Request> {
    let paths = [
        "/exact",
        "/exact/",
        "/exact?a=b",
        "/EXACT",
        "/fOLDED",
        "/items/12",
        "/items/12?x=/",
        "/items/12/more",
        "/items/x",
        "/api/v1",
        "/api/v1/",
        "/api/v1/x",
        "/api/v12",
        "/api/v1?x=1",
        "/nowhere",
        "/",
        "/a/../exact",
        "/a/./../items/7",
        "/api/v1/x/..",
        "/../exact",
        "/api//v1",
    ];
    paths.iter().map(|path| get(path)).collect()
}

fn headers() -> Vec<Request> {
    vec![
        get("/header").header("x-kind", "exact"),
        get("/header").header("x-kind", "prefixed"),
        get("/header").header("x-kind", "r22"),
        get("/header").header("x-kind", "r22x"),
        get("/header").header("x-kind", "one").header("x-kind", "two"),
        get("/header").header("x-kind", "one,two"),
        get("/header").header("x-kind", "other").header("x-kind", "exact"),
        get("/header").header("x-kind", "exact").header("x-kind", "other"),
        get("/header").header("x-kind", "prefixed").header("x-kind", "other"),
        get("/header").header("x-kind", "r1").header("x-kind", "r2"),
        get("/not").header("x-there", "1").header("x-kind", "exact").header("x-kind", "exact"),
        get("/not").header("x-there", "1").header("x-kind", "exact").header("x-kind", "other"),
        get("/not").header("x-there", "1").header("x-kind", "other").header("x-kind", "exact"),
        get("/not").header("x-there", "1").header("x-kind", "other").header("x-kind", "another"),
        get("/range").header("x-number", "9").header("x-number", "99"),
        get("/header").header("x-there", ""),
        get("/header"),
        get("/absent"),
        get("/absent").header("x-there", "1"),
        get("/not"),
        get("/not").header("x-there", "1"),
        get("/not").header("x-there", "1").header("x-kind", "exact"),
        get("/not").header("x-there", "1").header("x-kind", "other"),
        get("/missing"),
        get("/missing").header("x-kind", "exact"),
        get("/range").header("x-number", "9"),
        get("/range").header("x-number", "10"),
        get("/range").header("x-number", "9.5"),
        get("/method"),
        get("/method").method("POST"),
    ]
}

fn queries() -> Vec<Request> {
    let queries =
        ["?a=1&b", "?a=1&b=", "?b=2&a=1", "?a=1", "?a=12", "?a=123", "", "?", "?b=1", "?a=2&a=1&b", "?a=12&a=1"];
    let also = ["?a", "?a=%31&b"];
    queries.iter().chain(&also).map(|query| get(&format!("/query{query}"))).collect()
}

fn rewrites() -> Vec<Request> {
    let paths = [
        "/old/x?y=z",
        "/old",
        "/old?y=z",
        "/old/",
        "/sep",
        "/sep/more?y",
        "/users/ann/books?x=/users/bob/films",
        "/users/ann/books/users/bob/films",
        "/users/1/books",
        "/host/x",
        "/by-path/seven",
    ];
    paths.iter().map(|path| get(path)).collect()
}

fn redirects() -> Vec<Request> {
    let paths = [
        "/secure/x?y=z",
        "/moved/x?y=z",
        "/port/x",
        "/path?y=z",
        "/path-with-query?y=z",
        "/from/x?y=z",
        "/numbers/12?3",
    ];
    let hosts = ["any.test", "any.test:80", "any.test:443", "any.test:8080", "[::1]", "[::1]:80"];
    paths.iter().flat_map(|path| hosts.iter().map(|host| Request::get(host, path))).collect()
}

fn changes() -> Vec<Request> {
    let change = || get("/change").header("x-secret", "1").header("x-kuma-tags", "&kuma.io/service=web&");
    let there = || change().header("x-set", "old").header("x-if-there", "old").header("x-if-not-there", "old");
    let mut all = vec![change(), there(), there().header("x-added", "old").header("x-set", "older")];
    all.extend(["a", "b", "none"].map(|cluster| get("/by-header").header("x-cluster", cluster)));
    all.push(get("/by-header"));
    all.extend(["0", "1", "2", "4", "5", "6", "7", "13"].map(|dice| get("/weights").header("x-dice", dice)));
    all
}

fn permissions() -> Vec<Request> {
    vec![
        get("/exact").header("x-denied", "yes, it is"),
        get("/exact").header("x-denied", "no"),
        get("/exact").header("x-denied", "no").header("x-denied", "yes"),
        get("/exact").header("x-denied", "yes").header("x-denied", "no"),
        get("/exact").header("x-caller", "friend").header("x-caller", "foe"),
        get("/exact").header("x-caller", "foe").header("x-caller", "friend"),
        get("/exact").header("x-caller", "foe").header("x-caller", "some.local"),
        get("/nowhere").header("x-denied", "yes"),
        get("/open").header("x-denied", "yes"),
        get("/open?x").header("x-denied", "yes"),
        get("/exact").header("x-caller", "friend"),
        get("/exact").header("x-caller", "Foe"),
        get("/exact").header("x-caller", "somebody.LOCAL"),
    ]
}
