//! The shapes of handlers once more, in the edition before.
