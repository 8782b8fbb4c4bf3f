"""Problems with verifiable answers, their verification, and the order in which they are drawn."""
