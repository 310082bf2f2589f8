"""Access to the block store through the WebHDFS REST protocol, compatible with Hadoop's HttpFS."""
