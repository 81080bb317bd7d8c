//! Pushes what a subscription has: one change at a time, in the order of the space. What fails is tried again after a pause that doubles,
//! and holds back what follows; after the last attempt it is parked with the reason, and what follows goes on.

use std::{sync::Arc, time::Duration};

use super::{
    Delivery, Push,
    measures::delivered,
    subscription::{State, Subscription},
    webhook::{Failure, Webhooks},
};
use crate::{host::Host, problem::Problem};

/// So long a pause becomes, and no longer.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// So long it is waited for a change, before it is looked whether the subscription goes on.
const PULL_WAIT: Duration = Duration::from_secs(30);
/// After what is no fault of the receiver's it is gone on after this.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// Pushes until the subscription ends.
pub(super) async fn push(subscription: Arc<Subscription>, webhooks: Arc<Webhooks>, host: Host) {
    let mut state = subscription.state();
    let row = subscription.row();
    let (Some(push), Some(secret)) = (row.definition.push.clone(), row.secret.clone()) else { return };
    let pushing = async {
        loop {
            if let Err(problem) = push_next(&subscription, &webhooks, &host, &push, &secret).await {
                tracing::debug!(space = subscription.space(), name = row.definition.name, %problem, "pushing waits");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
    };
    tokio::select! {
        () = pushing => {}
        // Its sender is the subscription's own.
        _ = state.wait_for(|state| *state != State::Open) => {}
    }
}

async fn push_next(
    subscription: &Subscription,
    webhooks: &Webhooks,
    host: &Host,
    push: &Push,
    secret: &str,
) -> Result<(), Problem> {
    for Delivery { place, change, attempt } in subscription.pull(1, PULL_WAIT).await? {
        let records = [change];
        let told = subscription.row().definition.content.of(host, subscription.space(), &records).await?;
        let [change] = &records;
        let (id, time) = (&change.change.id, &change.change.time);
        match webhooks.deliver(push, secret, id, time, told.first().map_or("null", AsRef::as_ref)).await {
            Ok(()) => {
                delivered("delivered");
                subscription.settle(vec![place]).await?;
            }
            Err(failure) => {
                delivered(failure.as_str());
                let pause = pause(push.backoff_ms, attempt, uuid::Uuid::new_v4().as_bytes()[0]);
                if subscription.failed(place, pause, &reason(attempt, &failure)).await? {
                    delivered("parked");
                    tracing::warn!(space = subscription.space(), id, %failure, "a webhook was parked");
                }
            }
        }
    }
    Ok(())
}

fn reason(attempt: u32, failure: &Failure) -> String {
    format!("{failure}, at the last of {attempt} attempts")
}

/// The pause after an attempt that failed: twice that of the one before, of which a random half is left out, so that not all come back at once.
fn pause(backoff_ms: u64, attempt: u32, random: u8) -> Duration {
    let doublings = attempt.saturating_sub(1).min(20);
    let whole = Duration::from_millis(backoff_ms.saturating_mul(1 << doublings)).min(PAUSE_MAX);
    whole / 2 + whole / 2 * u32::from(random) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protects receivers that are down from being hurried, and changes from waiting for ever.
    #[test]
    fn a_pause_doubles_up_to_a_bound() {
        assert_eq!(pause(1_000, 1, 0), Duration::from_millis(500));
        assert_eq!(pause(1_000, 1, u8::MAX), Duration::from_millis(1_000));
        assert_eq!(pause(1_000, 4, u8::MAX), Duration::from_millis(8_000));
        assert_eq!(pause(60_000, 100, u8::MAX), PAUSE_MAX);
        assert!((0..=u8::MAX).all(|random| pause(1_000, 2, random) >= Duration::from_millis(1_000)));
    }
}
