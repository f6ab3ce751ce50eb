//! Integers to floats. The compiler finds the instructions: AVX-512 converts eight integers at once, AVX2 by way of
//! the halves of each.

use crate::forms::decimals::{Form, Scale};

#[inline(always)]
pub(crate) fn convert(scale: Scale, form: Form, integers: &mut [i64]) {
    // One loop for each form: a closure would not be compiled for the instructions of the function around it.
    match form {
        Form::Double => {
            for integer in integers {
                *integer = scale.float(*integer).to_bits() as i64;
            }
        }
        Form::Single => {
            for integer in integers {
                *integer = f64::from(scale.float(*integer) as f32).to_bits() as i64;
            }
        }
        Form::DoubleKey => {
            for integer in integers {
                let bits = scale.float(*integer).to_bits() as i64;
                *integer = bits ^ ((bits >> 63) as u64 >> 1) as i64;
            }
        }
        Form::SingleKey => {
            for integer in integers {
                let bits = (scale.float(*integer) as f32).to_bits() as i32;
                *integer = i64::from(bits ^ ((bits >> 31) as u32 >> 1) as i32);
            }
        }
    }
}
