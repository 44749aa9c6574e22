//! Turns the library's `tracing` events into lines on stderr.

use std::{
    fmt::{Debug, Write as _},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt, registry::Registry};

use super::{Level, Talk, escape};
use crate::{duration, time};

/// From now on, what the library reports is said by `talk`.
pub(crate) fn listen(talk: Talk) {
    let subscriber = Registry::default().with(Listener(talk));
    // Fails only when there is a subscriber already, and then that one is told.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Listener(Talk);

impl<S: Subscriber> Layer<S> for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        let ours = metadata.target().split("::").next() == Some("leasehold");
        ours && self.0.says(level(*metadata.level()))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = sentence(&fields);
        self.0
            .say_with(level(*event.metadata().level()), &text, fields.facts);
    }
}

/// What happened, for someone who is woken by it.
fn sentence(fields: &Fields) -> String {
    let Fields { message, facts } = fields;
    let fact = |name: &str| facts.get(name).map(shown).unwrap_or_default();
    let lock = format!("lock {:?}", fact("name"));
    match message.as_str() {
        "acquired" => format!("{lock} acquired, fencing token {}", fact("fencing_token")),
        "lost" => format!("{lock} lost: {}", fact("reason")),
        "renewal failing" => {
            let left = facts.get("left_ms").and_then(Value::as_u64).unwrap_or(0);
            let left = duration::show(Duration::from_millis(left));
            let now = time::wall().strftime("%H:%M:%SZ");
            format!(
                "{lock}: renewal failing since {now} ({}), {left} left",
                fact("error")
            )
        }
        "renewal recovered" => format!("{lock}: renewal recovered"),
        message => {
            let mut text = message.to_owned();
            for (name, value) in facts {
                // Writing to a string cannot fail.
                let _ = write!(text, ", {name} {}", shown(value));
            }
            text
        }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), escape)
}

const fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR | tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    facts: Map<String, Value>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, json!(value));
    }
}

impl Fields {
    fn take(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", value) => {
                self.message = value.as_str().map_or_else(|| value.to_string(), escape);
            }
            (name, value) => {
                self.facts.insert(name.into(), value);
            }
        }
    }
}
