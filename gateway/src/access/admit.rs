//! Events at the door: which right a body needs, and in whose name it is.
//!
//! Who retracted, reinstated, reviewed or vouched stands in the event itself, so the record of it is the log. A caller that a token names
//! cannot give another name there, unless it has the right to operate; then `agent` says who it was.

use recant_proto::{
    v1::{Event, SourceDeclared, event::Body},
    validate,
};

use super::{Caller, Denied, Right};

/// The right that an event's body needs.
pub fn right_for(event: &Event) -> Right {
    match &event.body {
        Some(Body::SourceDeclared(declared)) if is_vouched_for(declared) => Right::Operate,
        Some(Body::Retracted(_) | Body::Reinstated(_)) => Right::Retract,
        Some(Body::ActionReviewed(_)) => Right::Operate,
        Some(body) if validate::is_of_control_space(body) => Right::Operate,
        Some(
            Body::SourceDeclared(_)
            | Body::Observed(_)
            | Body::Derived(_)
            | Body::Justified(_)
            | Body::ActionProposed(_)
            | Body::ActionSettled(_)
            | Body::Read(_)
            | Body::Handoff(_)
            // The others are the control space's.
            | Body::LogCreated(_)
            | Body::PolicySet(_)
            | Body::LogicActivated(_)
            | Body::KeyEnrolled(_)
            | Body::KeyRevoked(_)
            | Body::Tick(_),
        ) => Right::Write,
        // The contract refuses it, and says so to those who may write.
        None => Right::Write,
    }
}

fn is_vouched_for(declared: &SourceDeclared) -> bool {
    let has_what_needs_it =
        declared.trust_millionths.is_some() || declared.cost_millionths.is_some() || !declared.group.is_empty();
    has_what_needs_it || !declared.operator.is_empty()
}

/// Lets an event in, in the caller's name, or says why not. The same event of the same caller always becomes the same bytes, so that
/// it can be sent again.
pub fn admit(caller: &Caller, event: &mut Event) -> Result<(), Denied> {
    caller.check(&event.space, right_for(event))?;
    let Some(caller_name) = caller.name() else { return Ok(()) };
    let may_speak_for_others = caller.may(Right::Operate, &event.space);
    let Some(given) = responsible(event) else { return Ok(()) };
    if given.is_empty() {
        caller_name.clone_into(given);
    } else if given != caller_name && !may_speak_for_others {
        return Err(Denied::InAnothersName { caller: caller_name.to_owned(), other: given.clone() });
    }
    caller_name.clone_into(&mut event.agent);
    Ok(())
}

/// The name of who is responsible, for bodies that have one.
fn responsible(event: &mut Event) -> Option<&mut String> {
    match event.body.as_mut()? {
        Body::Retracted(retracted) => Some(&mut retracted.by),
        Body::Reinstated(reinstated) => Some(&mut reinstated.by),
        Body::ActionReviewed(reviewed) => Some(&mut reviewed.by),
        Body::PolicySet(policy) => Some(&mut policy.by),
        Body::SourceDeclared(declared) if is_vouched_for(declared) => Some(&mut declared.operator),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use recant_proto::v1::{Observed, Retracted};

    use super::*;
    use crate::access::Grants;

    fn caller(rights: &[Right]) -> Caller {
        Caller::named("console", Grants::default().grant("acme", rights))
    }

    fn event(body: Body) -> Event {
        Event { id: "e".to_owned(), space: "acme".to_owned(), body: Some(body), ..Event::default() }
    }

    fn retracted(by: &str) -> Event {
        event(Body::Retracted(Retracted { by: by.to_owned(), ..Retracted::default() }))
    }

    #[test]
    fn a_retraction_says_who_asked_for_it() {
        let mut event = retracted("");
        admit(&caller(&[Right::Retract]), &mut event).unwrap();
        assert_eq!(event, Event { agent: "console".to_owned(), ..retracted("console") });
        // Sent again as it was answered, it is the same event.
        let first = event.clone();
        admit(&caller(&[Right::Retract]), &mut event).unwrap();
        assert_eq!(event, first);
    }

    #[test]
    fn only_who_operates_retracts_in_anothers_name_and_is_named_beside_it() {
        let denied = admit(&caller(&[Right::Retract]), &mut retracted("dana"));
        assert_eq!(denied, Err(Denied::InAnothersName { caller: "console".to_owned(), other: "dana".to_owned() }));
        let mut event = Event { agent: "somebody".to_owned(), ..retracted("dana") };
        admit(&caller(&[Right::Retract, Right::Operate]), &mut event).unwrap();
        assert_eq!(event, Event { agent: "console".to_owned(), ..retracted("dana") });
    }

    #[test]
    fn what_an_agent_says_keeps_the_agents_name() {
        let observed = Event { agent: "reader".to_owned(), ..event(Body::Observed(Observed::default())) };
        let mut admitted = observed.clone();
        admit(&caller(&[Right::Write]), &mut admitted).unwrap();
        assert_eq!(admitted, observed);
    }

    #[test]
    fn vouching_for_a_source_is_an_operators() {
        let plain = SourceDeclared { source: "s".to_owned(), ..SourceDeclared::default() };
        let trusted = SourceDeclared { trust_millionths: Some(1), ..plain.clone() };
        let writer = caller(&[Right::Write]);
        assert_eq!(admit(&writer, &mut event(Body::SourceDeclared(plain))), Ok(()));
        let lacking = Denied::Lacking { space: "acme".to_owned(), right: Right::Operate };
        assert_eq!(admit(&writer, &mut event(Body::SourceDeclared(trusted.clone()))), Err(lacking));
        let mut event = event(Body::SourceDeclared(trusted.clone()));
        admit(&caller(&[Right::Operate]), &mut event).unwrap();
        let named = SourceDeclared { operator: "console".to_owned(), ..trusted };
        assert_eq!(event.body, Some(Body::SourceDeclared(named)));
    }

    #[test]
    fn a_space_without_a_right_is_hidden_from_writers_too() {
        let mut elsewhere = Event { space: "other".to_owned(), ..retracted("") };
        assert_eq!(admit(&caller(&Right::ALL), &mut elsewhere), Err(Denied::Hidden));
    }
}
