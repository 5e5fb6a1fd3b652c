"""The server side of kohort."""
