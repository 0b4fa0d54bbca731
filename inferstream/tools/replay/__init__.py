"""`server replay`: recorded requests, sent again, and what comes of them compared with what came before."""
