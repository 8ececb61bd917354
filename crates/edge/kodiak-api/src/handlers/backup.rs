//! Backup of the store, streamed.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use hyper::body::Frame;
use kodiak_store::Backup;

use super::ApiCall;
use crate::{Api, ApiError};

pub(crate) async fn backup(api: Api, call: ApiCall) -> Result<Response, ApiError> {
    tracing::info!(user = %call.user, "backup of the store requested");
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"kodiak.backup\""),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::new(Chunks(api.catalog().store().backup()))).into_response())
}

/// Encodes a chunk when the client has read the one before: a slow client costs one chunk.
struct Chunks(Backup);

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(self.0.next().map(|chunk| Ok(Frame::data(chunk.into()))))
    }
}
