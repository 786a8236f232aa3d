//! The guides that need a client and a server, as doctests.

#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/guides/from-rmcp.md")]
    mod from_rmcp {}

    #[doc = include_str!("../../docs/guides/protecting-a-server.md")]
    mod protecting_a_server {}

    #[doc = include_str!("../../docs/guides/several-servers.md")]
    mod several_servers {}

    #[doc = include_str!("../../docs/guides/testing.md")]
    mod testing {}

    #[doc = include_str!("../../docs/guides/tower-layers.md")]
    mod tower_layers {}

    #[doc = include_str!("../../docs/guides/who-is-calling.md")]
    mod who_is_calling {}
}
