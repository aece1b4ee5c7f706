//! The examples are the `[[example]]` targets of this package.
