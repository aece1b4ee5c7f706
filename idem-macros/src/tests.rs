//! What is printed for typical handlers, and for half-typed ones.

use proc_macro2::TokenStream;
use quote::quote;

use crate::guard;

/// The expansion as code, or its error where it is none.
fn pretty(arguments: &TokenStream, item: &TokenStream) -> String {
    let expansion = guard(arguments, item);
    match syn::parse2(expansion.clone()) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => format!("{error} in {expansion}"),
    }
}

fn messages(arguments: &TokenStream, item: &TokenStream) -> Vec<String> {
    let expansion = guard(arguments, item).to_string();
    let mut parts = expansion.split("compile_error ! {").skip(1);
    parts.by_ref().map(|part| part.split('}').next().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn a_plain_handler() {
    let item = quote! {
        /// Creates a payment.
        pub async fn create(State(app): State<App>, Json(order): Json<Order>) -> Result<Json<Payment>, Oops> {
            app.create(order).await
        }
    };
    insta::assert_snapshot!(pretty(&quote!(ttl = "24h"), &item));
}

#[test]
fn key_scope_and_every_kind_of_option() {
    let arguments = quote! {
        ttl = "7d",
        retry_window = stripe,
        key = event.id,
        scope = (shop.tenant, *account),
        lease = "10s",
        wait = "2s",
        fingerprint(only("/amount", "/currency")),
        record = all,
        unknown = hold,
        outage = run,
        max_response = "64KiB",
        operation = "webhooks.stripe",
        store = layer
    };
    let item = quote! {
        async fn webhook<L: Ledger>(
            mut shop: Shop<'_>,
            Path((account, ref _rest)): Path<(u64, String)>,
            #[cfg(feature = "signed")] Signed(event): Signed<Event>,
        ) where L: Clone {
            L::book(&shop, event).await;
        }
    };
    insta::assert_snapshot!(pretty(&arguments, &item));
}

#[test]
fn a_handler_that_names_self() {
    let item = quote! {
        #[expect(unused_variables)]
        #[allow(dead_code)]
        async fn create(State(this): State<Arc<Self>>) -> StatusCode {
            StatusCode::CREATED
        }
    };
    let arguments = quote!(ttl = "24h");
    insta::assert_snapshot!(pretty(&arguments, &item));
}

#[test]
fn extraction_in_the_wrapper() {
    let item = quote! {
        async fn create(State(till): State<Till>, Json(order): Json<Order>) -> StatusCode {
            StatusCode::CREATED
        }
    };
    insta::assert_snapshot!(pretty(&quote!(ttl = "24h", state = App, scope = till.id), &item));
}

#[test]
fn foreign_attributes_expand_first() {
    let item = quote! {
        /// Docs.
        #[axum::debug_handler]
        #[allow(unused)]
        async fn create(State(app): State<App>) -> StatusCode { app.status() }
    };
    let first = guard(&quote!(ttl = "24h", scope = app.id), &item).to_string();
    let debug_handler = first.find("axum :: debug_handler").unwrap();
    let ours =
        first.find(":: idem_runtime :: idempotent (__idem_second_pass , ttl = \"24h\" , scope = app . id)").unwrap();
    assert!(debug_handler < ours, "{first}");

    let second = guard(
        &quote!(__idem_second_pass, ttl = "24h"),
        &quote! {
            #[rustfmt::skip]
            #[some::inert(attribute)]
            async fn create() {}
        },
    )
    .to_string();
    assert!(second.contains("IdemFuture") && second.contains("some :: inert"), "{second}");
}

/// A mistake is reported by the first pass, and the second one doesn't repeat it.
#[test]
fn mistakes_are_reported_once() {
    let item = quote! {
        #[axum::debug_handler]
        async fn create() {}
    };
    let first = guard(&quote!(ttl = 24), &item).to_string();
    assert!(first.contains("__idem_reported") && first.matches("compile_error").count() == 1, "{first}");
    let second = guard(
        &quote!(__idem_reported, ttl = 24),
        &quote!(
            async fn create() {}
        ),
    )
    .to_string();
    assert!(!second.contains("compile_error") && second.contains("IdemFuture"), "{second}");
}

/// What an editor sends while somebody types: the function is still there, and the macro adds no error to the compiler's.
#[test]
fn half_typed_bodies_survive() {
    let bodies = [
        quote!({ app. }),
        quote!({ let x = ; }),
        quote!({ match app { Some(x) => } }),
        quote!({ if app.ready { } else }),
    ];
    for body in bodies {
        let item = quote!(async fn create(State(app): State<App>) -> StatusCode #body);
        let expansion = guard(&quote!(ttl = "24h"), &item).to_string();
        assert!(expansion.contains("fn create") && expansion.contains("IdemFuture"), "{expansion}");
        assert!(expansion.contains(&body.to_string()), "{expansion}");
        assert!(!expansion.contains("compile_error"), "{expansion}");
    }
}

#[test]
fn half_typed_arguments_keep_the_handler() {
    let item = quote!(
        async fn create(State(app): State<App>) -> StatusCode {
            app.status()
        }
    );
    let half_typed = [
        quote!(),
        quote!(t),
        quote!(ttl),
        quote!(ttl =),
        quote!(ttl = "24h", scope = app.),
        quote!(ttl = "24h", scope =),
        quote!(ttl = "24h",,),
        quote!(= "24h"),
        quote!(ttl = "24h", fingerprint(skip("/a",)),),
        quote!(ttl = "24h", fingerprint(skip)),
        quote!(ttl == "24h"),
    ];
    for arguments in half_typed {
        let expansion = guard(&arguments, &item).to_string();
        assert!(expansion.contains("IdemFuture") && expansion.contains("app . status ()"), "{arguments}: {expansion}");
    }
}

/// Whatever the item is, it is printed again.
#[test]
fn other_items_survive() {
    for item in [
        quote!(
            struct S;
        ),
        quote!(impl S { async fn create() {} }),
        quote!(
            trait T {
                async fn create();
            }
        ),
        quote!(
            fn create() {}
        ),
        quote!(
            async fn create(self) {}
        ),
        quote!(
            async fn create();
        ),
        quote!(unsafe async fn create() {}),
        quote!(let x = 1;),
    ] {
        let expansion = guard(&quote!(ttl = "24h"), &item).to_string();
        assert!(expansion.contains("compile_error"), "{item}: no error");
        let body = if item.to_string().contains("fn create") { "create" } else { &item.to_string() };
        assert!(expansion.contains(body), "{item}: {expansion}");
    }
}

/// The compiler has read the item first, and reported that.
#[test]
fn a_missing_type_is_left_to_the_compiler() {
    let item = quote!(async fn create(app) { app.create() });
    assert_eq!(guard(&quote!(ttl = "24h"), &item).to_string(), item.to_string());
}

#[test]
fn all_mistakes_are_reported_together() {
    let found = messages(
        &quote!(ttl = "24", lease = 30, wait("5s"), recrod = all, optional = false, ttl = "1h"),
        &quote!(
            const fn create(self) {}
        ),
    );
    assert_eq!(found.len(), 9, "{found:#?}");
}

/// What an option is called elsewhere, and slips of the pen.
#[test]
fn an_options_other_names_lead_to_it() {
    let written = [
        ("timeout", "ttl"),
        ("expires", "ttl"),
        ("expiry", "ttl"),
        ("expire_in", "ttl"),
        ("max_age", "ttl"),
        ("tt1", "ttl"),
        ("header_name", "header"),
        ("heaader", "header"),
        ("max_body", "max_response"),
        ("max_size", "max_response"),
        ("max_respones", "max_response"),
        ("fingerprnit", "fingerprint"),
        ("retrywindow", "retry_window"),
    ];
    for (written, meant) in written {
        let name = proc_macro2::Ident::new(written, proc_macro2::Span::call_site());
        let found = messages(
            &quote!(ttl = "24h", #name = "1"),
            &quote!(
                async fn create() {}
            ),
        );
        let [found] = found.as_slice() else { panic!("{written}: {found:?}") };
        assert!(found.contains(&format!("did you mean `{meant}`?")), "{written}: {found}");
    }
}

/// Items within the body have their own `Self`.
#[test]
fn self_of_an_inner_item_is_not_the_handlers() {
    let item = quote! {
        async fn create() -> StatusCode {
            struct Local(u8);
            impl Local { fn new() -> Self { Self(1) } }
            let make: fn() -> Local = Local::new;
            make().0.into_response()
        }
    };
    let expansion = guard(&quote!(ttl = "24h"), &item).to_string();
    assert!(!expansion.contains("Self :: __idem_create"), "{expansion}");
    let item = quote! {
        async fn create() -> StatusCode {
            struct Local;
            let make: fn() -> StatusCode = Self::status;
            make()
        }
    };
    let expansion = guard(&quote!(ttl = "24h"), &item).to_string();
    assert!(expansion.contains("Self :: __idem_create"), "{expansion}");
}

/// `ttl` at the schedule itself is too short, and what is proposed is a quarter longer.
#[test]
fn each_sender_has_its_schedule() {
    let proposed = [
        ("stripe", "90h"),
        ("github", "90h"),
        ("paypal", "90h"),
        ("sns", "75m"),
        ("shopify", "5h"),
        ("standard_webhooks", "95h"),
        ("svix", "35h"),
        ("slack", "30h"),
        ("twilio", "5h"),
        ("adyen", "900h"),
        ("square", "30h"),
    ];
    assert_eq!(proposed.len(), crate::senders::SENDERS.len());
    for (sender, (name, enough)) in crate::senders::SENDERS.iter().zip(proposed) {
        assert_eq!(sender.name, name);
        let name = proc_macro2::Ident::new(name, proc_macro2::Span::call_site());
        let attribute = |ttl: String| quote!(ttl = #ttl, lease = "1s", retry_window = #name);
        let told = messages(
            &attribute(format!("{}ms", sender.window_ms)),
            &quote!(
                async fn webhook() {}
            ),
        )
        .concat();
        assert!(told.contains(sender.schedule) && told.contains(crate::senders::READ), "{told}");
        assert!(told.contains(enough), "{told}");
        assert_eq!(
            messages(
                &attribute(enough.into()),
                &quote!(
                    async fn webhook() {}
                )
            ),
            [""; 0]
        );
    }
}
