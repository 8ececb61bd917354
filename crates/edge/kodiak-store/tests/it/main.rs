//! What the store promises: one suite of behaviours, run on every back end, and what is special to each of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bed;
mod damage;
mod file;
mod full;
mod lifetime;
mod postgres;
mod reads;
mod sealing;
mod watching;
mod writes;

/// Makes tests `memory::x::y`, `file::x::y` and `postgres::x::y` of each behaviour `x::y`.
macro_rules! on_every_back_end {
    ($($group:ident: $($behaviour:ident),+;)+) => {
        on_every_back_end!(@on memory $($group: $($behaviour),+;)+);
        on_every_back_end!(@on file $($group: $($behaviour),+;)+);
        on_every_back_end!(@on postgres $($group: $($behaviour),+;)+);
    };
    (@on $back_end:ident $($group:ident: $($behaviour:ident),+;)+) => {
        mod $back_end {
            $(mod $group {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    if let Some(bed) = Option::<crate::bed::Bed>::from(crate::bed::Bed::$back_end()) {
                        crate::$group::$behaviour(bed).await;
                    }
                })+
            })+
        }
    };
}

mod on {
    on_every_back_end! {
        writes:
            a_put_creates_and_replaces, versions_are_compared, absent_means_absent, equal_is_silent,
            a_status_is_apart_from_its_spec, status_versions_are_compared, status_and_spec_do_not_undo_each_other,
            deletes_cascade, owners_must_exist, transactions_are_all_or_nothing, writes_see_those_before_them,
            a_refused_write_hurts_only_itself, one_of_many_wins;
        reads: lists_are_ordered, counts_are_kept, snapshots_stay_as_they_are;
        watching:
            changes_come_in_order_under_load, a_watch_resumes, a_watch_resumes_in_another_store, what_fell_off_is_merged,
            what_is_forgotten_has_expired, from_nothing_there_is_always_a_way, a_slow_watcher_blocks_nobody,
            an_idle_watch_waits, the_future_has_expired;
        lifetime:
            what_is_committed_is_there_again, twenty_thousand_records, a_closed_store_refuses_writes, queued_writes_are_answered,
            a_ping_persists, the_observer_hears_of_commits, alone_it_leads;
        sealing:
            sealed_specs_come_back, another_key_is_refused, no_key_is_refused, plain_specs_are_sealed_at_their_next_write;
    }
}
