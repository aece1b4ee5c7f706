#!/usr/bin/env python3
"""Signs as each sender of webhooks does, and sends: a delivery, the same again, a forged one, a stale one.

    python3 examples/webhooks/send.py [http://localhost:3000] [SENDER...]

Ends with 1 if an answer isn't the one that is due. Reads the secrets from the same variables as the server.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid


def setting(name, example):
    return os.environ.get(name, example).split(",")[0]


def mac(secret, *parts):
    return hmac.new(secret, b"".join(parts), hashlib.sha256)


def encoded(digest):
    return base64.b64encode(digest.digest()).decode()


def stripe(event, at):
    body = json.dumps({"id": event, "type": "charge.succeeded"}).encode()
    signature = mac(setting("STRIPE_SECRET", "whsec_example").encode(), f"{at}.".encode(), body).hexdigest()
    return body, {"Stripe-Signature": f"t={at},v1={signature}"}


def github(event, at):
    body = json.dumps({"zen": "Keep it logically awesome."}).encode()
    signature = mac(setting("GITHUB_SECRET", "example").encode(), body).hexdigest()
    return body, {"X-GitHub-Delivery": event, "X-GitHub-Event": "ping", "X-Hub-Signature-256": f"sha256={signature}"}


def shopify(event, at):
    body = json.dumps({"id": 820982911946154508}).encode()
    signature = encoded(mac(setting("SHOPIFY_SECRET", "example").encode(), body))
    return body, {"X-Shopify-Event-Id": event, "X-Shopify-Topic": "orders/create", "X-Shopify-Hmac-Sha256": signature}


def slack(event, at):
    body = json.dumps({"type": "event_callback", "event_id": event}).encode()
    signature = mac(setting("SLACK_SECRET", "example").encode(), f"v0:{at}:".encode(), body).hexdigest()
    return body, {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"v0={signature}"}


def standard(event, at, family="webhook"):
    body = json.dumps({"type": "invoice.paid"}).encode()
    secret = base64.b64decode(setting("STANDARD_SECRET", "whsec_ZXhhbXBsZQ==").removeprefix("whsec_"))
    signature = encoded(mac(secret, f"{event}.{at}.".encode(), body))
    return body, {f"{family}-id": event, f"{family}-timestamp": str(at), f"{family}-signature": f"v1,{signature}"}


def svix(event, at):
    return standard(event, at, "svix")


def square(event, at):
    body = json.dumps({"event_id": event, "type": "payment.created"}).encode()
    url = os.environ.get("SQUARE_URL", "https://example.com/square").encode()
    signature = encoded(mac(setting("SQUARE_SECRET", "example").encode(), url, body))
    return body, {"x-square-hmacsha256-signature": signature}


SENDERS = {
    "stripe": stripe, "github": github, "shopify": shopify, "slack": slack, "standard": standard, "svix": svix,
    "square": square,
}
WITH_TIME = {"stripe", "slack", "standard", "svix"}


def send(base, path, body, headers):
    request = urllib.request.Request(base + path, data=body, headers={"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers.get("Idempotent-Replayed") == "true"
    except urllib.error.HTTPError as refused:
        return refused.code, False


def main():
    base = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:3000"
    wrong = 0
    for name in sys.argv[2:] or SENDERS:
        sign, path = SENDERS[name], "/standard" if name == "svix" else f"/{name}"
        event, now = str(uuid.uuid4()), int(time.time())
        body, headers = sign(event, now)
        steps = [
            ("unsigned", (401, False), body, {}),
            ("forged", (401, False), body + b" ", headers),
            ("first", (202, False), body, headers),
            ("again", (202, True), body, headers),
        ]
        if name in WITH_TIME:
            steps.append(("signed anew", (202, True), *sign(event, now + 1)))
            steps.append(("stale", (400, False), *sign(event, now - 3600)))
        for what, due, sent, signed in steps:
            status, replayed = send(base, path, sent, signed)
            verdict = "" if (status, replayed) == due else f"   WRONG: {due} is due"
            wrong += verdict != ""
            print(f"{name:10} {what:12} {status} {'replayed' if replayed else ''}{verdict}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
