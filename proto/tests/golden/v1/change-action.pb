
'000102030405060708090a0b0c0d0e0f:0:42:4acme
a-pay-1187"action*supplier/invoice/11872accounts:run-7JINROUTZunsupportedb
e-09	retractedr-1hr

0:42z0:42‚2026-03-02T08:20:00.117ZŠ'
payment.transferdone34500.00"EUR