state=$(look)
# Only under the lock is it sure that it is somebody's work, and not a seed on its way.
if [ "$state" = occupied ]; then begin; state=$(look); fi
if [ "$state" = 'done' ]; then rm -rf .remcochat/seed.*; fi
echo "$state"
