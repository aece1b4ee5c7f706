//! What is seen where a feature is off.
