
e-13acmeaccounts"run-7*322026-03-02T09:15:00+01:00Ò!
a-mail	mail.send:p-payBask