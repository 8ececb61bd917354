//! Timeouts of clusters, routes and TCP proxies.

use kodiak_envoy::envoy::config::route::v3::{RouteAction, route::Action};

use super::Conf;
use crate::callers::{self, Keys};
use crate::convert::{actions, set_duration};
use crate::policy::for_everybody;
use crate::target::{Carrier, Chain, Inbound, Outbound, Upstream, UpstreamTraffic};
use crate::timeouts;
use crate::{Confs, Entry};

const KEYS: Keys = Keys { spiffe_id: "kuma.mesh_timeout.match.spiffe_id", sni: "kuma.mesh_timeout.match.sni" };

pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    let everybody = for_everybody(entries);
    let conf: Conf = everybody.read();
    cluster(&conf, &mut inbound.workload);
    let groups = callers::groups(entries, &everybody);
    for Chain { mtls, carrier } in &mut inbound.chains {
        whole(&conf, carrier);
        let Carrier::Http(http) = carrier else { continue };
        for (_, action) in actions(&mut http.routes) {
            route(&conf, action);
        }
        if *mtls {
            callers::add_routes(&groups, KEYS, http, |group, copy| {
                if let Some(Action::Route(action)) = &mut copy.action {
                    route(&group.conf.read(), action);
                }
            });
            inbound.inspects_tls |= callers::need_sni(&groups);
        }
    }
}

/// A route that a MeshTimeout selects has both timeouts, also when the policy sets neither: without a policy, a route to
/// a `kuma.io/service` has none.
pub(super) fn outbound(confs: &Confs, outbound: &mut Outbound<'_>) {
    if let Some(conf) = &confs.whole {
        whole(&conf.read(), &mut outbound.carrier);
    }
    let Carrier::Http(http) = &mut outbound.carrier else { return };
    for (name, action) in actions(&mut http.routes) {
        if let Some(conf) = confs.of_route(name) {
            action.timeout = Some(kodiak_envoy::duration(timeouts::REQUEST));
            action.idle_timeout = Some(kodiak_envoy::duration(timeouts::STREAM_IDLE));
            route(&conf.read(), action);
        }
    }
}

pub(super) fn cluster(conf: &Conf, upstream: &mut Upstream) {
    let Conf { connection_timeout, idle_timeout, http } = conf;
    set_duration(&mut upstream.cluster.connect_timeout, *connection_timeout);
    // Streams of gRPC may be open for as long as they like, and TCP has its limits in the listener.
    let Some(options) = upstream.http.as_mut().filter(|_| upstream.traffic == UpstreamTraffic::Http) else { return };
    let common = options.common_http_protocol_options.get_or_insert_default();
    set_duration(&mut common.idle_timeout, *idle_timeout);
    if let Some(http) = http {
        set_duration(&mut common.max_stream_duration, http.max_stream_duration);
        set_duration(&mut common.max_connection_duration, http.max_connection_duration);
    }
}

/// Sets the timeouts that apply to all routes.
fn whole(conf: &Conf, carrier: &mut Carrier) {
    match carrier {
        Carrier::Http(http) => {
            let written = conf.http.as_ref().and_then(|http| http.request_headers_timeout);
            set_duration(&mut http.manager.request_headers_timeout, written);
        }
        Carrier::Tcp(tcp) => set_duration(&mut tcp.proxy.idle_timeout, conf.idle_timeout),
    }
}

fn route(conf: &Conf, action: &mut RouteAction) {
    let Some(http) = &conf.http else { return };
    set_duration(&mut action.timeout, http.request_timeout);
    set_duration(&mut action.idle_timeout, http.stream_idle_timeout);
}

#[cfg(test)]
mod tests {
    use kodiak_model::Protocol;

    use crate::mesh_timeout::Timeouts;
    use crate::samples::{
        as_http, as_tcp, check, conf, for_all, from, http, inbound, outbound, redirect, route, rule, tcp, upstream,
    };
    use crate::target::{Carrier, Upstream, UpstreamTraffic};
    use crate::{Confs, Policy as _};

    const ALL: &str = "
        connectionTimeout: 51s
        idleTimeout: 50s
        http:
          requestTimeout: 52s
          streamIdleTimeout: 53s
          maxStreamDuration: 54s
          maxConnectionDuration: 55s
          requestHeadersTimeout: 500ms
    ";

    #[test]
    fn cluster_gets_connection_timeouts() {
        let mut called = upstream(true);
        Timeouts.cluster(&conf(ALL), &mut called);
        assert_eq!(called.cluster.connect_timeout.unwrap().seconds, 51);
        check(
            &called.http.unwrap(),
            "common_http_protocol_options: {idle_timeout: 50s, max_stream_duration: 54s, max_connection_duration: 55s}",
        );

        let mut grpc = Upstream { traffic: UpstreamTraffic::Grpc, ..upstream(true) };
        Timeouts.cluster(&conf(ALL), &mut grpc);
        assert_eq!(grpc.cluster.connect_timeout.unwrap().seconds, 51);
        assert_eq!(grpc.http, upstream(true).http);

        let mut not_http = upstream(false);
        Timeouts.cluster(&conf(ALL), &mut not_http);
        assert_eq!(not_http.http, None);
    }

    #[test]
    fn unset_timeouts_keep_their_value() {
        let mut called = upstream(true);
        let before = called.cluster.clone();
        Timeouts.cluster(&conf("http: {requestTimeout: 1s}"), &mut called);
        assert_eq!(called.cluster, before);

        let confs = for_all("http: {streamIdleTimeout: 0s}");
        let carrier = outbound(&Timeouts, &confs, Protocol::Http, http(vec![route("")]));
        check(
            &as_http(&carrier).routes[0],
            "{match: {prefix: /}, route: {cluster: backend, timeout: 15s, idle_timeout: 0s}}",
        );
        assert_eq!(outbound(&Timeouts, &Confs::default(), Protocol::Tcp, tcp()), tcp());
    }

    #[test]
    fn route_conf_overrides_destination_conf() {
        let mut confs = for_all(ALL);
        confs.routes.insert("slow".into(), conf("http: {requestTimeout: 90s}"));
        let carrier =
            outbound(&Timeouts, &confs, Protocol::Http, http(vec![route("slow"), redirect("gone"), route("other")]));
        let http = as_http(&carrier);
        check(
            &http.routes[0],
            "{name: slow, match: {prefix: /}, route: {cluster: backend, timeout: 90s, idle_timeout: 1800s}}",
        );
        assert_eq!(http.routes[1], redirect("gone"));
        check(
            &http.routes[2],
            "{name: other, match: {prefix: /}, route: {cluster: backend, timeout: 52s, idle_timeout: 53s}}",
        );
        check(&http.manager, "request_headers_timeout: 0.5s");
    }

    #[test]
    fn tcp_proxy_gets_the_idle_timeout() {
        let carrier = outbound(&Timeouts, &for_all(ALL), Protocol::Tcp, tcp());
        check(&as_tcp(&carrier).proxy, "idle_timeout: 50s");
    }

    #[test]
    fn inbound_merges_items_for_all_callers() {
        let entries = [from(ALL), rule("[]", "{connectionTimeout: 7s, http: {requestTimeout: 8s}}")];
        let served = inbound(&Timeouts, &entries, &http(vec![route("")]));
        assert_eq!(served.workload.cluster.connect_timeout.unwrap().seconds, 7);
        for chain in &served.chains {
            let http = as_http(&chain.carrier);
            assert_eq!(http.routes.len(), 1);
            check(&http.routes[0], "{match: {prefix: /}, route: {cluster: backend, timeout: 8s, idle_timeout: 53s}}");
            check(&http.manager, "request_headers_timeout: 0.5s");
        }
        let served = inbound(&Timeouts, &entries, &tcp());
        assert!(served.chains.iter().all(|chain| matches!(&chain.carrier, Carrier::Tcp(tcp)
            if tcp.proxy.idle_timeout.as_ref().unwrap().seconds == 50)));
    }
}
