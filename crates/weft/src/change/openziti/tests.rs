//! Documents of both forms, made by hand after what the original's program writes and reads.

mod entering;
mod leaving;
