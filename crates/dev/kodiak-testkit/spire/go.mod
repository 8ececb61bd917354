// Pins SPIRE for tests; its own go.sum pins its dependencies. `cargo xtask ci --only setup` builds it.
module kodiak/spire

go 1.26.6

require github.com/spiffe/spire v1.15.3
