//! What is seen where all features are off.
