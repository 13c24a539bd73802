//! Fused multiply-add of 16-bit floats, on a CPU that lacks the instruction.

/// `a * b + c`, rounded to odd: a value between two floats becomes the neighbour whose last bit is
/// set. Rounded again to 16 bits, the result equals the exact value rounded once, because `f32` has
/// more than two bits to spare (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded
/// sums", 2008).
///
/// The arguments are values of 16-bit floats, so their product is exact in `f64`.
pub(super) fn mul_add(a: f64, b: f64, c: f64) -> f32 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum as f32;
    }
    // The rounding error of the sum (D. Knuth, TAOCP 2, 4.2.2): the exact value is `sum + lost`.
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let nearest = sum as f32;
    let rest = match sum - f64::from(nearest) {
        0.0 => lost,
        // `lost` is smaller than the last bit of `sum`, and cannot change the sign.
        rest => rest,
    };
    if rest == 0.0 || !nearest.is_finite() || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if rest > 0.0 {
        nearest.next_up()
    } else {
        nearest.next_down()
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::mul_add;

    /// The values have few bits, scaled by powers of two, so that each exact result is known.
    #[test]
    fn the_rounding_error_of_the_sum_decides_a_tie() {
        let power = |exponent: i32| 2f64.powi(exponent);
        // The product lies halfway between two bf16. The summand lies far below the last bit of a
        // double.
        let (a, b) = (power(60) * (1.0 + power(-4)), power(40) * (1.0 + power(-4)));
        // (1 + 2^-4)^2 = 1 + 2^-3 + 2^-8: a tie, whose even neighbour is below.
        let tie = a * b;
        let round = |c: f64| f64::from(bf16::from_f32(mul_add(a, b, c)));
        let below = power(100) * (1.0 + power(-3));
        assert_eq!(round(0.0), below);
        assert_eq!(round(-power(-120)), below);
        assert_eq!(round(power(-120)), below + power(93));
        assert_eq!(tie + power(-120), tie, "a double loses it");
    }

    #[test]
    fn exact_values_stay() {
        assert_eq!(mul_add(3.0, 5.0, 7.0), 22.0);
        assert_eq!(mul_add(1.0, -2.0, 2.0).to_bits(), 0.0f32.to_bits());
        assert_eq!(mul_add(-0.0, 2.0, -0.0).to_bits(), (-0.0f32).to_bits());
        assert!(mul_add(f64::INFINITY, 0.0, 1.0).is_nan());
        assert_eq!(f16::from_f32(mul_add(65504.0, 2.0, 0.0)), f16::INFINITY);
    }
}
