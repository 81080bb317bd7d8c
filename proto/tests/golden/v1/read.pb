
e-16acmeaccounts"run-7*322026-03-02T09:15:00+01:00ê0
b-iban
	o-invoicethe supplier's bank details