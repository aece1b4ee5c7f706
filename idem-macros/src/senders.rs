//! How long well-known senders keep retrying, from their own documentation.

/// A sender of webhooks and its retry schedule.
pub(crate) struct Sender {
    pub(crate) name: &'static str,
    pub(crate) window_ms: u64,
    pub(crate) schedule: &'static str,
}

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// When the schedules below were read.
pub(crate) const READ: &str = "November 2026";

pub(crate) const SENDERS: [Sender; 11] = [
    // docs.stripe.com/webhooks/process-undelivered-events
    Sender { name: "stripe", window_ms: 72 * HOUR, schedule: "with growing pauses for up to 3 days" },
    // docs.github.com, "Handling failed webhook deliveries"
    Sender { name: "github", window_ms: 72 * HOUR, schedule: "not by itself, but redelivers by hand for 3 days" },
    // developer.paypal.com/api/rest/webhooks
    Sender { name: "paypal", window_ms: 72 * HOUR, schedule: "up to 25 times over 3 days" },
    // docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html
    Sender { name: "sns", window_ms: HOUR, schedule: "by its policy, for 1 hour at most" },
    // shopify.dev, changelog "Updates to webhook retry mechanism"
    Sender { name: "shopify", window_ms: 4 * HOUR, schedule: "8 times over 4 hours" },
    // the Standard Webhooks specification 1.0.0
    Sender {
        name: "standard_webhooks",
        window_ms: 75 * HOUR + 35 * MINUTE + 5_000,
        schedule: "after 5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h and 24h",
    },
    // docs.svix.com/retries
    Sender {
        name: "svix",
        window_ms: 27 * HOUR + 35 * MINUTE + 5_000,
        schedule: "after 5s, 5m, 30m, 2h, 5h, 10h and 10h",
    },
    // docs.slack.dev/apis/events-api
    Sender { name: "slack", window_ms: 24 * HOUR, schedule: "3 times in 6 minutes, hourly for a day in delayed mode" },
    // twilio.com/docs/events/event-delivery-and-duplication
    Sender { name: "twilio", window_ms: 4 * HOUR, schedule: "5 times at once for calls, event streams for 4 hours" },
    // docs.adyen.com/development-resources/webhooks/troubleshoot
    Sender { name: "adyen", window_ms: 720 * HOUR, schedule: "with growing pauses for up to 30 days" },
    // developer.squareup.com/docs/webhooks/troubleshooting
    Sender { name: "square", window_ms: 24 * HOUR, schedule: "11 times in 24 hours" },
];
