//! words
pub mod keys;
pub mod manifest;
mod quantity;
pub use quantity::{Amount, Quantity, QuantityError, WrittenAmount};
