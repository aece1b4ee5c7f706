//! The handler runs in its own task, so what it takes has no lifetime but `'static`.

use proc_macro2::Ident;
use syn::{
    GenericParam, Generics, Lifetime, Type, TypeParamBound, WherePredicate, parse_quote_spanned,
    visit_mut::{self, VisitMut},
};

use super::spans::located;
use crate::tokens::{Tokens, list};

/// A parameter's type without a lifetime that is left to infer.
pub(super) fn parameter(mut ty: Type) -> Tokens {
    Outlive.visit_type_mut(&mut ty);
    list(ty)
}

/// Gives every lifetime that is left to infer, and every `impl Trait`, the lifetime of a task.
struct Outlive;

impl VisitMut for Outlive {
    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        if reference.lifetime.is_none() {
            reference.lifetime = Some(Lifetime::new("'static", located(reference.and_token.span)));
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Lifetime::new("'static", located(lifetime.ident.span()));
        }
    }

    fn visit_type_impl_trait_mut(&mut self, ty: &mut syn::TypeImplTrait) {
        let span = located(ty.impl_token.span);
        if !ty.bounds.iter().any(is_static) {
            ty.bounds.push(TypeParamBound::Lifetime(Lifetime::new("'static", span)));
        }
        visit_mut::visit_type_impl_trait_mut(self, ty);
    }

    // Lifetimes in these are bound by them.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut syn::ParenthesizedGenericArguments) {}
}

fn is_static(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Lifetime(lifetime) if lifetime.ident == "static")
}

/// Asks `'static` of each type parameter, where its other bounds stand.
pub(super) fn generics(written: &Generics) -> Generics {
    let mut generics = written.clone();
    let Generics { params, where_clause, .. } = &mut generics;
    for parameter in params.iter_mut() {
        let GenericParam::Type(parameter) = parameter else { continue };
        let span = located(parameter.ident.span());
        let bound: TypeParamBound = parse_quote_spanned!(span=> 'static);
        let ident = &parameter.ident;
        let elsewhere =
            where_clause.iter_mut().flat_map(|clause| &mut clause.predicates).find_map(|predicate| match predicate {
                WherePredicate::Type(predicate) if is_parameter(&predicate.bounded_ty, ident) => {
                    Some(&mut predicate.bounds)
                }
                _ => None,
            });
        let bounds = match elsewhere {
            Some(bounds) if parameter.bounds.is_empty() => bounds,
            _ => {
                parameter.colon_token.get_or_insert(syn::Token![:](span));
                &mut parameter.bounds
            }
        };
        if !bounds.iter().any(is_static) {
            bounds.push(bound);
        }
    }
    generics
}

fn is_parameter(ty: &Type, name: &Ident) -> bool {
    matches!(ty, Type::Path(path) if path.qself.is_none() && path.path.is_ident(name))
}
