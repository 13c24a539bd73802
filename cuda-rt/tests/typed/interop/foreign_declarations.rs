//! Declarations of foreign kernels, compared with the parameters of their entries.

use cuda_rt::Device;
use cuda_rt::interop::{ForeignError, ForeignModule};
use cuda_rt::simulator::SimConfig;

use super::foreign_kernels::{CUBIN, load};
use crate::devices::for_each_simulated_device;

#[test]
fn a_declaration_that_is_not_the_entrys_is_refused() {
    cuda_rt::foreign_kernel! {
        unsafe fn saxpy(n: u32, a: f32, x: &[f32]) as TooFew;
        unsafe fn saxpy(n: u64, a: f32, x: &[f32], y: &mut [f32]) as WideLength;
        unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: u32) as ValueForPointer;
        unsafe fn axpy(n: u32) as OtherName;
        unsafe fn blur(x: &[f32], y: &mut [f32], width: u32, s: i16, p: [f64; 3]) as Blur;
        unsafe fn blur(x: &[f32], y: &mut [f32], width: u32, s: i16, p: [f32; 3]) as SmallBlur;
        unsafe fn none() as Nothing;
        unsafe fn none(x: &[f32]) as NotNothing;
        unsafe fn f(x: f32) as DeviceFunction;
    }
    for_each_simulated_device(|gpu| {
        let module = load(gpu);
        assert!(matches!(
            module.get::<TooFew>(),
            Err(ForeignError::Count {
                entry: "saxpy",
                declared: 3,
                found: 4,
                ..
            })
        ));
        assert!(matches!(
            module.get::<WideLength>(),
            Err(ForeignError::Parameter {
                index: 0,
                name: "n",
                declared_bytes: 8,
                found_bytes: 4,
                ..
            })
        ));
        let error = module.get::<ValueForPointer>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "ForeignModule::get: parameter 3 (`y`) of `saxpy` is declared as a value of 4 bytes, and has 8 bytes in \
             the module: declared (n: 4, a: 4, x: pointer, y: 4), module (4 .u32, 4 .f32, 8 .u64, 8 .u64), in bytes"
        );
        let error = module.get::<OtherName>().unwrap_err().to_string();
        assert!(error.contains("no entry `axpy`; it has `saxpy`"), "{error}");

        let cubin = ForeignModule::load(gpu, CUBIN).unwrap();
        assert_eq!(cubin.entries(), ["sq", "none", "blur"]);
        cubin.get::<Blur>().unwrap();
        cubin.get::<Nothing>().unwrap();
        assert!(matches!(
            cubin.get::<SmallBlur>(),
            Err(ForeignError::Parameter {
                index: 4,
                name: "p",
                declared_bytes: 12,
                found_bytes: 24,
                ..
            })
        ));
        assert!(matches!(
            cubin.get::<NotNothing>(),
            Err(ForeignError::Count { found: 0, .. })
        ));
        assert!(matches!(
            cubin.get::<DeviceFunction>(),
            Err(ForeignError::NoEntry { .. })
        ));
    });
}

#[test]
fn a_declaration_of_another_order_or_number_is_shown_beside_the_entry() {
    cuda_rt::foreign_kernel! {
        unsafe fn saxpy(n: u32 = y.len(), x: &[f32], y: &mut [f32]) as NoFactor;
        unsafe fn blur(y: &mut [f32], width: u32) as TwoOfFive;
    }
    for_each_simulated_device(|gpu| {
        let error = load(gpu).get::<NoFactor>().unwrap_err().to_string();
        let lists =
            ": declared (n: 4, x: pointer, y: pointer), module (4 .u32, 4 .f32, 8 .u64, 8 .u64), in bytes (";
        assert!(
            error.contains(lists) && error.contains("with 3 parameters, and takes 4"),
            "{error}"
        );
        // A cubin states no types.
        let cubin = ForeignModule::load(gpu, CUBIN).unwrap();
        let error = cubin.get::<TwoOfFive>().unwrap_err().to_string();
        let lists = ": declared (y: pointer, width: 4), module (8, 8, 4, 2, 24), in bytes (";
        assert!(error.contains(lists), "{error}");
    });
}

#[test]
fn types_that_ptx_states_are_compared() {
    cuda_rt::foreign_kernel! {
        unsafe fn f(a: f32, b: f64, n: u32, m: i64, x: &[f32]) as AsStated;
        unsafe fn f(a: u32, b: f64, n: u32, m: i64, x: &[f32]) as IntegerForFloat;
        unsafe fn f(a: f32, b: &[f64], n: u32, m: i64, x: &[f32]) as PointerForFloat;
        unsafe fn f(a: f32, b: f64, n: f32, m: i64, x: &[f32]) as FloatForInteger;
        unsafe fn f(a: f32, b: f64, n: u32, m: f64, x: &[f32]) as FloatForWide;
        // What PTX cannot tell: the sign, a pointer from an integer, an array from a float.
        unsafe fn f(a: [f32; 1], b: [u16; 4], n: i32, m: u64, x: u64) as Untold;
        unsafe fn bits(a: u32, b: f32, c: f64) as Bits;
    }
    const PTX: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64\n\
        .visible .entry f(.param .f32 a, .param .f64 b, .param .u32 n, .param .s64 m, .param .u64 x) { ret; }\n\
        .visible .entry bits(.param .b32 a, .param .b32 b, .param .align 8 .b8 c[8]) { ret; }\n";
    Device::simulated(SimConfig::default(), |gpu| {
        let module = ForeignModule::load(&gpu, PTX).unwrap();
        module.get::<AsStated>().unwrap();
        module.get::<Untold>().unwrap();
        module.get::<Bits>().unwrap();
        let error = module.get::<IntegerForFloat>().unwrap_err().to_string();
        assert_eq!(
            error,
            "ForeignModule::get: parameter 0 (`a`) of `f` is declared as an integer, and the PTX says `.f32`: declared \
             (a: 4, b: 8, n: 4, m: 8, x: pointer), module (4 .f32, 8 .f64, 4 .u32, 8 .s64, 8 .u64), in bytes"
        );
        for (result, says) in [
            (module.get::<PointerForFloat>().map(drop), (1, "a pointer", ".f64")),
            (module.get::<FloatForInteger>().map(drop), (2, "a float", ".u32")),
            (module.get::<FloatForWide>().map(drop), (3, "a float", ".s64")),
        ] {
            let error = result.unwrap_err();
            let ForeignError::Type { index, declared, found, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((index, declared, found.as_str()), says);
        }
    })
    .unwrap();
}

#[test]
fn parameters_that_cannot_be_read_are_shown() {
    cuda_rt::foreign_kernel! {
        unsafe fn f(x: f32) as F;
    }
    const PTX: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64\n\
        .visible .entry ff() { ret; }\n  .visible .entry f(.param .texref x)\n{ ret; }\n";
    Device::simulated(SimConfig::default(), |gpu| {
        let module = ForeignModule::load(&gpu, PTX).unwrap();
        assert_eq!(
            module.get::<F>().unwrap_err().to_string(),
            "ForeignModule::get: the parameters of entry `f` cannot be read from the image: `.visible .entry f(.param \
             .texref x)` (a parameter is `.param .type name`)"
        );
    })
    .unwrap();
}
