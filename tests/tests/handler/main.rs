//! What a client of an annotated handler sees, through a listening server.

mod app;
mod bodies;
mod callers;
mod headers;
mod keys;
mod runs;
mod seed;
mod settling;
mod streams;
