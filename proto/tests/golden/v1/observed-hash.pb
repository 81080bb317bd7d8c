
e-03acmeaccounts"run-7*322026-03-02T09:15:00+01:00ªn
	o-invoiceinbox:billing@supplier.example"A.
sha256 a¾áj[øF²á/±˜ãò§ÃÆ0%ˆC£W-ú`KÓø"application/pdf