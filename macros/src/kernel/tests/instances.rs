//! Generic kernels: which lists are refused, and what each instance has.

use proc_macro2::TokenStream;
use quote::quote;

use super::{every_word, expand, macro_arguments, parse, refused, symbol};
use crate::message;

#[test]
fn a_list_of_instances_fits_the_parameters() {
    let one = || {
        quote!(
            fn k<T: Element>(i: Index1, a: &[T]) -> T {
                a[0]
            }
        )
    };
    let two = || {
        quote!(
            fn k<T, const N: usize>(i: Index1, a: &[T]) -> [T; N] {
                loop {}
            }
        )
    };
    let none = || {
        quote!(
            fn k(i: Index1, a: &[f32]) -> f32 {
                a[0]
            }
        )
    };
    refused(quote!(instances = f32), one(), message::INSTANCES_NOT_LIST);
    refused(quote!(instances), one(), message::INSTANCES_NOT_LIST);
    refused(quote!(instances = []), one(), message::INSTANCES_NOT_LIST);
    refused(quote!(instances = [f32; 2]), one(), message::INSTANCES_NOT_LIST);
    refused(
        quote!(instances = [f32], instances = [f64]),
        one(),
        "`instances` is given twice",
    );
    refused(quote!(instances = [f32]), none(), message::INSTANCES_NOT_GENERIC);
    refused(quote!(instances = [f32, f32]), one(), message::INSTANCE_TWICE);
    refused(quote!(instances = [<f32>, f32]), one(), message::INSTANCE_TWICE);
    refused(quote!(instances = [4]), one(), message::INSTANCE_TYPE);
    refused(
        quote!(instances = [<f32, [u8; 4]>]),
        two(),
        message::INSTANCE_CONSTANT,
    );
    refused(quote!(instances = [<'a>]), one(), message::INSTANCE_TYPE);
    refused(
        quote!(instances = [<f32, 4>]),
        one(),
        &message::instance_arguments(1),
    );
    refused(quote!(instances = [f32]), two(), &message::instance_arguments(2));
    for list in [
        quote!([f32, f64]),
        quote!([<f32>, (f32)]),
        quote!([<f32 as Trait>::Wide,]),
    ] {
        assert!(expand(quote!(instances = #list), one()).is_ok(), "{list}");
    }
    for list in [
        quote!([<f32, 4>, <f32, 5>]),
        quote!([<f32, { N }>, <f32, -1>, <f32, m::SIZE>]),
    ] {
        assert!(expand(quote!(instances = #list), two()).is_ok(), "{list}");
    }
}

#[test]
fn generic_parameters_that_no_instance_has_are_refused() {
    let list = || quote!(instances = [f32]);
    refused(
        list(),
        quote!(
            fn k<'a, T>(i: Index1, a: &[T]) -> T {
                a[0]
            }
        ),
        message::LIFETIME,
    );
    refused(
        list(),
        quote!(
            fn k<T = f32>(i: Index1, a: &[T]) -> T {
                a[0]
            }
        ),
        message::GENERIC_DEFAULT,
    );
    refused(
        quote!(instances = [4]),
        quote!(
            fn k<const N: usize = 4>(i: Index1, a: &[u8]) -> [u8; N] {
                loop {}
            }
        ),
        message::GENERIC_DEFAULT,
    );
    for item in [
        quote!(
            fn k<T: A>(i: Index1, a: &[T::Of]) -> T {
                loop {}
            }
        ),
        quote!(
            fn k<T: A>(i: Index1, a: &[T]) -> T::Of {
                loop {}
            }
        ),
        quote!(
            fn k<T: A>(i: Index1, a: &[[T::Of; 2]]) -> T {
                loop {}
            }
        ),
        quote!(
            fn k<T: A>(i: Index1, a: &[T], b: Pair<<T::Of as A>::Of>) -> T {
                loop {}
            }
        ),
    ] {
        refused(list(), item, message::GENERIC_PROJECTION);
    }
    let named = quote!(
        fn k<T: A>(i: Index1, a: &[<T as A>::Of], b: other::T::Of) -> T {
            loop {}
        }
    );
    assert!(expand(list(), named).is_ok());
}

/// Each instance has an entry of its own, and two kernels never share one.
#[test]
fn symbols_tell_instances_apart() {
    let generic = |list: TokenStream| -> Vec<String> {
        let item = quote!(
            fn k<T, const N: usize>(i: Index1, a: &[T]) -> [T; N] {
                loop {}
            }
        );
        let kernel = parse::parse(quote!(instances = #list), item).unwrap();
        let instances = kernel.instances.iter();
        instances
            .map(|instance| symbol::symbol("p", &kernel, Some(instance)))
            .collect()
    };
    let symbols = generic(quote!([<f32, 4>, <f32, 5>, <u32, 4>, <A<f32>, 4>, <A<f32, 4>, 4>, <f32, { 4 }>]));
    let different: std::collections::HashSet<&String> = symbols.iter().collect();
    assert_eq!(different.len(), symbols.len(), "{symbols:?}");
    // The host and the device may be built from lists in another order.
    assert_eq!(
        generic(quote!([<u32, 4>, <f32, 4>])),
        [symbols[2].clone(), symbols[0].clone()]
    );
}

#[test]
fn no_token_of_an_instance_goes_where_unsafe_is_added() {
    let item = quote! {
        fn k<UserT: UserBound, const USER_N: usize>(
            mut user_block: Block,
            user_tile: BlockUninit<UserT, USER_N>,
            user_in: &[[UserT; USER_N]],
            user_scalar: <UserT as UserBound>::Of,
        ) -> UserT
        where
            UserT: UserOther,
        { user_body() }
    };
    let arguments =
        quote!(block = 64, handle = UserHandle, instances = [<UserA, { user_n() }>, <UserB, USER_C>]);
    let expanded = expand(arguments.clone(), item.clone()).unwrap();
    crate::names::assert_ours(&quote!(#arguments #item), &expanded);
    let mut words = Vec::new();
    every_word(expanded.clone(), &mut words);
    assert!(!words.contains(&"unsafe".to_owned()), "{expanded}");
    let mut seen = 0;
    macro_arguments(expanded, &mut |tokens| {
        seen += 1;
        // The name of the kernel, for a reader, is a literal.
        let text = tokens.to_string();
        let (before, after) = text
            .split_once("\"k<UserA")
            .or_else(|| text.split_once("\"k<UserB"))
            .unwrap_or((&text, ""));
        let after = after.split_once('"').map_or("", |(_, after)| after);
        for code in [before, after] {
            assert!(!code.to_lowercase().contains("user"), "{text}");
        }
    });
    assert_eq!(
        seen, 4,
        "one macro for the device and one for the host, for each instance"
    );
}
