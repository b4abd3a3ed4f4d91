use std::time::Duration;

use super::*;

fn bases() -> Bases {
    Bases::new("/none".into(), 10, Arc::default())
}

fn base(name: &str) -> BaseUse {
    BaseUse { name: name.into(), allocated_bytes: 4, made_s: 5 }
}

fn is_stable(bases: &Bases, name: &str) -> bool {
    bases.states.stable_generation(name).is_some()
}

fn names(bases: &[BaseUse]) -> Vec<&str> {
    bases.iter().map(|base| &*base.name).collect()
}

#[tokio::test]
async fn a_base_that_is_leased_or_needed_is_kept() {
    let bases = bases();
    let held = bases.states.lease("held").unwrap();
    let existing = vec![base("held"), base("needed"), base("unused")];
    let unused = bases
        .unused(existing.clone(), async || {
            // A lease that is taken now must not rely on the base.
            assert!(
                bases.states.lease("unused").is_some()
                    && !is_stable(&bases, "unused")
                    && is_stable(&bases, "held")
            );
            Ok(Some(HashSet::from(["needed".to_owned()])))
        })
        .await
        .unwrap();
    assert_eq!(names(&unused.unwrap()), ["unused"]);
    assert!(is_stable(&bases, "needed"), "a base that is needed is kept");
    drop(held);
    let unknown = bases.unused(existing, async || Ok(None)).await.unwrap();
    assert!(unknown.is_none() && ["held", "needed"].iter().all(|name| is_stable(&bases, name)));
}

#[tokio::test]
async fn a_base_is_removed_by_a_decision_and_not_by_a_mark() {
    let bases = bases();
    let existing = vec![base("candidate"), base("unsettled")];
    drop((bases.states.lease("candidate"), bases.states.lease("unsettled")));
    bases.states.set_unsettled("unsettled", true);
    let interrupted = bases.unused(existing.clone(), async || Err(Error::NoDisks)).await;
    assert!(interrupted.is_err() && is_stable(&bases, "candidate") && !is_stable(&bases, "unsettled"));
    let chosen = bases.states.candidates(existing);
    assert_eq!(names(&chosen), ["candidate"]);
    // The selection was interrupted, and the next change begins.
    assert_eq!(bases.states.begin_to_remove_unsettled(), ["unsettled"]);
    assert!(is_stable(&bases, "candidate") && !is_stable(&bases, "unsettled"));
    bases.states.set_unsettled("unsettled", false);
    assert!(is_stable(&bases, "unsettled"));
}

#[test]
fn a_base_that_was_removed_meanwhile_is_not_the_same() {
    let bases = bases();
    let _held = bases.states.lease("a").unwrap();
    let before = bases.states.stable_generation("a");
    bases.states.set_unsettled("a", true);
    bases.states.set_unsettled("a", false);
    assert!(
        before.is_some()
            && bases.states.stable_generation("a").is_some()
            && bases.states.stable_generation("a") != before
    );
}

#[test]
fn a_base_that_cannot_be_made_is_not_tried_again_at_once() {
    let bases = bases();
    drop((bases.states.lease("never"), bases.states.lease("later")));
    bases.states.set_not_before("never", NotBefore::Never);
    bases.states.set_not_before("later", NotBefore::Time(Instant::now() + Duration::from_secs(600)));
    assert!(bases.states.lease("never").is_none() && bases.states.lease("later").is_none());
    bases.states.set_not_before("later", NotBefore::Time(Instant::now()));
    assert!(bases.states.lease("later").is_some());
}

#[test]
fn a_damaged_base_is_not_used_until_its_file_is_another_one() {
    let bases = bases();
    let damaged = base("a");
    bases.states.set_damaged(damaged.clone());
    assert_eq!(bases.usable(std::slice::from_ref(&damaged), "a"), None);
    assert!(bases.usable(&[BaseUse { made_s: 6, ..damaged.clone() }], "a").is_some());
    bases.states.set_unsettled("a", true);
    bases.states.set_unsettled("a", false);
    assert!(bases.usable(&[damaged], "a").is_some(), "it was made again in the same second");
}

#[test]
fn the_last_use_is_the_later_of_two_times() {
    let bases = bases();
    drop(bases.states.lease("a"));
    assert!(bases.states.used_ms(&base("a")) > 5_000);
    assert_eq!(bases.states.used_ms(&base("b")), 5_000);
}

#[test]
fn bases_that_did_not_work_are_tried_again_unless_the_kernel_is_too_old() {
    let bases = bases();
    let until = |bases: &Bases| match bases.availability() {
        Availability::Unavailable { until } => until,
        other => panic!("{other:?}"),
    };
    bases.record_unavailable(engine::Error::Miscounted { name: "volume".into() }).unwrap();
    assert!(until(&bases).is_some_and(|until| until > Instant::now() + limits::BASE_SUPPORT_RETEST / 2));
    *lock(&bases.availability) = Availability::Unavailable { until: Some(Instant::now()) };
    assert_eq!(bases.availability(), Availability::Unknown);
    bases.set_unavailable(&OldKernel { found: "6.1".into() }, None);
    assert_eq!(until(&bases), None);
}
