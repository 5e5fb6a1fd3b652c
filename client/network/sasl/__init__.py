"""SASL: the client authenticates on its connections.

    authenticator.py    what a connection awaits; the only part with a loop
    exchange.py         SaslHandshake and SaslAuthenticate around a mechanism: pure
    mechanisms.py       PLAIN and OAUTHBEARER: pure
    scram.py            SCRAM: pure
    tokens.py           OAuth tokens and their refresh

A mechanism is a generator: it yields the client's messages, is sent the broker's,
and returns when it has nothing more to send. `SaslAuthenticationError` ends it.
"""
