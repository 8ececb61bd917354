//! Log lines about stored resources that this version cannot read.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::bed::{Bed, put, write};

/// Lines of the log, as `level field=value ...`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        lines.into_iter().filter(|line| line.contains("cannot be read")).collect()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The store reports what it loads in the task that opens it, which this thread runs.
#[tokio::test]
async fn unreadable_resources_are_logged_at_the_start() {
    let bed = Bed::file();
    let store = bed.open().await;
    write(&store, put("fine", "{}")).await;
    write(&store, put("broken", r#"{"ports":"no list"}"#)).await;
    store.close().await;
    drop(store);
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let store = bed.open().await;
    let logged = lines.take();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].starts_with("ERROR"), "{logged:?}");
    assert!(logged[0].contains("stored resource cannot be read"), "{logged:?}");
    assert!(logged[0].contains("broken"), "{logged:?}");
    store.close().await;
}
