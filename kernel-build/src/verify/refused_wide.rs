//! Tests of `wide.rs`.

use super::refused::{OWN, Text};

fn text(body: &str) -> Text {
    Text::of(format!(".reg .b16 %h<9>;\n{OWN}mov.b16 %h5, 3;\n{body}"))
}

#[test]
fn a_product_of_twice_the_size_with_the_least_number_is_refused() {
    const LEAST: [&str; 3] = ["-2147483648", "2147483648", "0x80000000"];
    for least in LEAST {
        for (body, words) in [
            (
                format!("mul.wide.s32 %rd1, %r5, {least};"),
                "write `(x as i64) << 31`",
            ),
            (format!("mul.wide.s32 %rd1, {least}, %r5;"), "with the wrong sign"),
            (
                format!("mad.wide.s32 %rd1, %r5, {least}, %rd5;"),
                "with the wrong sign",
            ),
            (
                format!("mov.b32 %r1, {least};\nmul.wide.s32 %rd1, %r5, %r1;"),
                "with the wrong sign",
            ),
            (
                format!("mov.b32 %r1, {least};\nmov.b32 %r2, %r1;\nmul.wide.s32 %rd1, %r2, %r5;"),
                "with the wrong sign",
            ),
            (
                format!(
                    "mov.b32 %r1, 1;\nsetp.eq.s32 %p1, %r5, 1;\n@%p1 mov.b32 %r1, {least};\nmul.wide.s32 %rd1, %r5, %r1;"
                ),
                "with the wrong sign",
            ),
        ] {
            text(&format!("mov.b64 %rd5, 1;\n{body}")).refused(words);
        }
    }
    for least in ["-32768", "32768", "0x8000"] {
        text(&format!("mul.wide.s16 %r1, %h5, {least};")).refused("write `(x as i32) << 15`");
        text(&format!("mad.wide.s16 %r1, {least}, %h5, %r5;")).refused("with the wrong sign");
        text(&format!("mov.b16 %h1, {least};\nmul.wide.s16 %r1, %h1, %h5;")).refused("with the wrong sign");
    }
}

#[test]
fn other_products_are_accepted() {
    for body in [
        "mul.wide.u32 %rd1, %r5, -2147483648;",
        "mul.wide.u32 %rd1, %r5, 2147483648;",
        "mul.wide.s32 %rd1, %r5, 1073741824;",
        "mul.wide.s32 %rd1, %r5, -2147483647;",
        "mul.wide.s32 %rd1, %r5, -32768;",
        "mul.wide.s32 %rd1, %r5, %r5;",
        "mov.b64 %rd2, -2147483648;\nmad.wide.s32 %rd1, %r5, 4, %rd2;",
        "mul.lo.s32 %r1, %r5, -2147483648;",
        "mul.wide.u16 %r1, %h5, -32768;",
        "mul.wide.s16 %r1, %h5, 16384;",
    ] {
        text(body).accepted();
    }
}
