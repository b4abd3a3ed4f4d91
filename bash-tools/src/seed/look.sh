state=$(look)
# Only under the lock it is certain that these are the user's files, and not a seed that is being moved.
if [ "$state" = occupied ]; then begin; state=$(look); fi
if [ "$state" = 'done' ]; then rm -rf .remcochat/seed.*; fi
echo "$state"
