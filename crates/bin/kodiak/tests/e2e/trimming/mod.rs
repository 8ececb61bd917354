//! Proxies that get only the destinations that permissions let them call.

mod batches;
mod explained;
mod guide;
mod migration;
mod participant;

use guide::Guide;
use participant::Participant;
