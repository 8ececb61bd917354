//! Behaviours of the store: one suite, run on every back end, and the special ones of each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bed;
mod damage;
mod file;
mod full;
mod gathering;
mod lifetime;
mod postgres;
mod reads;
mod sealing;
mod unreadable;
mod victim;
mod watching;
mod writes;

/// Creates tests `memory::x::y`, `file::x::y` and `postgres::x::y` of each behaviour `x::y`.
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
            put_creates_and_replaces, versions_are_compared, expect_absent_conflicts_with_a_record, equal_write_is_no_change,
            status_and_spec_are_written_separately, status_versions_are_compared, status_and_spec_do_not_undo_each_other,
            deletes_cascade, owners_must_exist, transactions_are_all_or_nothing, writes_see_those_before_them,
            rejected_write_fails_only_itself, one_of_many_concurrent_writes_wins, recreated_record_is_another_one,
            requirement_refuses_the_whole_transaction, owner_is_deleted_only_without_records_of_a_kind;
        gathering: refused_transaction_of_a_batch_fails_alone, batch_has_the_order_of_its_transactions;
        reads: lists_are_ordered, counts_are_maintained, snapshots_are_immutable;
        watching:
            changes_come_in_order_under_load, watch_resumes, watch_resumes_in_another_store, changes_beyond_the_log_are_merged,
            watch_before_dropped_tombstones_expires, watch_from_zero_never_expires, slow_watcher_blocks_nobody,
            idle_watch_waits, watch_from_a_future_revision_expires;
        lifetime:
            reopened_store_has_all_commits, twenty_thousand_records, closed_store_rejects_writes, queued_writes_are_answered,
            ping_makes_a_durable_write, observer_receives_commits, single_instance_is_the_leader, leader_writes_and_reads;
        sealing:
            sealed_specs_round_trip, rejects_another_seal_key, rejects_a_missing_seal_key, plain_specs_are_sealed_at_their_next_write;
    }
}
