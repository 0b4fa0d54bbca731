"""The code behind BlazeRPC's names where it differs from inferstream's."""
