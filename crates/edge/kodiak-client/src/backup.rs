//! Downloading a backup: larger than other answers, and written as it comes.

use std::io::Write;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;

use super::{Client, ClientError, MAX_ANSWER, Refusal};

impl Client {
    /// The time limit holds for each part of the answer, not for all of it.
    pub async fn backup(&self, output: &mut impl Write) -> Result<(), ClientError> {
        let mut request = Request::get(self.address.url("/store/backup"));
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        let request = request.body(Full::default()).expect("the address was parsed");
        let response =
            self.within(self.connections.request(request)).await?.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let refusal = self.within(Limited::new(body, MAX_ANSWER).collect()).await?;
            let refusal = refusal.map_err(|error| self.unreachable(&*error))?.to_bytes();
            return Err(Refusal::read(status, &refusal).into());
        }
        while let Some(frame) = self.within(body.frame()).await? {
            let frame = frame.map_err(|error| self.unreachable(&error))?;
            if let Some(chunk) = frame.data_ref() {
                output.write_all(chunk).map_err(ClientError::Backup)?;
            }
        }
        Ok(())
    }

    async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, ClientError> {
        let Some(limit) = self.timeout else { return Ok(work.await) };
        tokio::time::timeout(limit, work).await.map_err(|_| self.timed_out(limit))
    }
}
