//! Keys and certificates of meshes.
