//! Contents and order of the frames of an outbox.

use std::task::Waker;

use kodiak_envoy::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse, Resource};
use kodiak_envoy::google::protobuf::Any;
use kodiak_xds_stream::resource::Version;
use kodiak_xds_stream::{Event, Requested, Snapshot, Stream, TypeUrl, delta, sotw};
use prost::Message as _;

use super::*;
use crate::frames::Frames;

/// A resource with this many bytes of content.
fn resource(name: &str, length: usize) -> Arc<Encoded> {
    let any = Any { type_url: "x".to_owned(), value: vec![7; length].into() };
    let sotw = DiscoveryResponse { resources: vec![any.clone()], ..DiscoveryResponse::default() };
    let entry = Resource { name: name.to_owned(), resource: Some(any), ..Resource::default() };
    let delta = DeltaDiscoveryResponse { resources: vec![entry], ..DeltaDiscoveryResponse::default() };
    let (delta, sotw) = (delta.encode_to_vec().into(), sotw.encode_to_vec().into());
    Arc::new(Encoded { name: name.into(), version: Version(1), needs: Box::default(), delta, sotw })
}

/// The answer to a client that asks for all clusters and for one that does not exist.
fn response<W: Wire>(lengths: &[usize], request: W::Request) -> Response {
    let mut snapshot = Snapshot::default();
    for (index, length) in lengths.iter().enumerate() {
        snapshot.resources.insert(TypeUrl::Cluster, resource(&format!("cluster-{index:04}"), *length));
    }
    let mut stream = Stream::<W>::default();
    stream.on(Event::Snapshot(Arc::new(snapshot)));
    stream.on(Event::Request(Requested::Served(TypeUrl::Cluster), request)).remove(0)
}

fn delta_response(lengths: &[usize]) -> Response {
    let subscribe = vec!["*".into(), "nothing".into()];
    response::<delta::Subscription>(lengths, delta::Request { subscribe, ..delta::Request::default() })
}

fn take(outbox: &Outbox) -> Poll<Piece> {
    outbox.poll_take(&mut Context::from_waker(Waker::noop()))
}

/// All available frames, and the messages in them.
fn take_all(outbox: &Outbox) -> (Vec<Bytes>, Vec<Bytes>) {
    let (mut pieces, mut messages) = (Vec::new(), Vec::new());
    let mut frames = Frames::new(u32::MAX);
    while let Poll::Ready(Piece::Data(piece)) = take(outbox) {
        frames.push(&piece);
        pieces.push(piece);
        while let Some(message) = frames.next().unwrap() {
            messages.push(message);
        }
    }
    frames.finish().unwrap();
    (pieces, messages)
}

fn end() -> Closing {
    Closing { code: Closing::UNAVAILABLE, message: "stop".to_owned() }
}

#[test]
fn responses_are_whole_messages_in_full_frames() {
    for lengths in
        [&[][..], &[0], &[1, 2, 3], &[100; 1000], &[FRAME], &[FRAME - 1, FRAME + 1, 5 * FRAME, 1], &[1 << 20]]
    {
        let outbox = Outbox::default();
        let sent = delta_response(lengths);
        let nonce = sent.nonce.to_string();
        outbox.put::<delta::Subscription>(vec![sent]).unwrap();
        let (pieces, messages) = take_all(&outbox);
        assert!(pieces.iter().all(|piece| piece.len() <= FRAME), "{lengths:?}");
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        assert_eq!(outbox.bytes(), bytes as u64);
        assert_eq!(outbox.bytes(), 0, "told once");
        let [message] = &messages[..] else { panic!("{} messages for {lengths:?}", messages.len()) };
        let message = DeltaDiscoveryResponse::decode(message.clone()).unwrap();
        assert_eq!((&message.nonce, &message.removed_resources), (&nonce, &vec!["nothing".to_owned()]));
        assert_eq!(message.type_url, TypeUrl::Cluster.as_str());
        let taken: Vec<_> = message.resources.iter().map(|each| each.resource.as_ref().unwrap().value.len()).collect();
        assert_eq!(taken, lengths);
        assert!(outbox.is_empty());
    }
}

#[test]
fn small_resources_share_frames() {
    let outbox = Outbox::default();
    outbox.put::<delta::Subscription>(vec![delta_response(&[100; 1000]), delta_response(&[])]).unwrap();
    let (pieces, messages) = take_all(&outbox);
    assert_eq!(messages.len(), 2);
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    assert_eq!(pieces.len(), bytes.div_ceil(FRAME));
}

#[test]
fn long_resource_is_not_copied() {
    let outbox = Outbox::default();
    let sent = delta_response(&[4 * FRAME]);
    let whole = sent.resources[0].delta.as_ptr_range();
    outbox.put::<delta::Subscription>(vec![sent]).unwrap();
    let (pieces, _) = take_all(&outbox);
    assert!(pieces[1..4].iter().all(|piece| whole.contains(&piece.as_ptr())));
}

#[test]
fn sotw_response_has_its_version() {
    let outbox = Outbox::default();
    let sent = response::<sotw::Subscription>(&[3, 4], sotw::Request::default());
    let version = sent.version.unwrap().to_string();
    outbox.put::<sotw::Subscription>(vec![sent]).unwrap();
    let message = DiscoveryResponse::decode(take_all(&outbox).1.remove(0)).unwrap();
    assert_eq!((message.version_info, message.resources.len()), (version, 2));
    assert_eq!((message.nonce.as_str(), message.type_url.as_str()), ("1", TypeUrl::Cluster.as_str()));
}

#[test]
fn started_responses_are_sent_before_the_end_and_cleared_ones_are_not() {
    let outbox = Outbox::default();
    outbox.put::<delta::Subscription>(vec![delta_response(&[2 * FRAME]), delta_response(&[2 * FRAME])]).unwrap();
    let Poll::Ready(Piece::Data(first)) = take(&outbox) else { panic!("the outbox has data") };
    outbox.clear();
    outbox.end(end());
    let mut taken = first.len();
    while let Poll::Ready(Piece::Data(piece)) = take(&outbox) {
        taken += piece.len();
    }
    assert!((2 * FRAME..3 * FRAME).contains(&taken), "{taken}");
    assert_eq!(take(&outbox), Poll::Ready(Piece::End(end())));

    let untouched = Outbox::default();
    untouched.put::<delta::Subscription>(vec![delta_response(&[1])]).unwrap();
    untouched.clear();
    untouched.end(end());
    assert_eq!(take(&untouched), Poll::Ready(Piece::End(end())));

    let kept = Outbox::default();
    kept.put::<delta::Subscription>(vec![delta_response(&[1])]).unwrap();
    kept.end(end());
    assert_eq!(take_all(&kept).1.len(), 1);
    assert_eq!(take(&kept), Poll::Ready(Piece::End(end())));
}

#[test]
fn outbox_is_full_after_many_responses_or_long_heads() {
    let outbox = Outbox::default();
    for _ in 0..MOST_RESPONSES {
        assert!(!outbox.is_crowded());
        outbox.put::<delta::Subscription>(vec![delta_response(&[1])]).unwrap();
    }
    assert!(outbox.is_crowded());
    take_all(&outbox);
    assert!(!outbox.is_crowded());
    let subscribe = (0..MOST_OWN_BYTES / 100).map(|index| format!("{index:0>100}").into()).collect();
    let request = delta::Request { subscribe, ..delta::Request::default() };
    outbox.put::<delta::Subscription>(vec![response::<delta::Subscription>(&[], request)]).unwrap();
    assert!(outbox.is_crowded());
}
