"""The block store for ordinary clients: the WebHDFS REST protocol, as Hadoop's HttpFS serves it."""
